package kube

import (
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// StartAPIServer starts kube-apiserver on the same port and data as before, and
// waits until it serves. It does nothing while the API server runs.
func (c *ControlPlane) StartAPIServer(ctx context.Context) error {
	pki := func(name string) string { return filepath.Join(c.dir, "pki", name) }
	args := []string{
		"--etcd-servers=unix://" + c.etcdSocket(),
		"--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", c.port.number),
		"--permit-port-sharing", // this process reserves the port
		// A loopback address can't be advertised, so nothing maintains the endpoints of default/kubernetes. The address family must match the
		// first range.
		"--advertise-address=" + c.advertiseAddress(),
		"--endpoint-reconciler-type=none",
		"--service-cluster-ip-range=" + strings.Join(c.opts.serviceCIDRs, ","),

		"--tls-cert-file=" + pki("apiserver.crt"),
		"--tls-private-key-file=" + pki("apiserver.key"),
		"--client-ca-file=" + pki("ca.crt"),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + pki("service-account.key"),
		"--service-account-signing-key-file=" + pki("service-account.key"),
		"--authorization-mode=RBAC",

		// By default it waits a minute for clients to end their watches.
		"--shutdown-watch-termination-grace-period=1s",
		"--shutdown-send-retry-after",
		"--profiling=false",
	}
	return c.start(ctx, &c.apiserver, c.bin.APIServer, append(args, c.opts.apiserverArgs...), c.probeAPIServer)
}

// StopAPIServer stops the API server gracefully: it closes its watches and
// finishes the requests under way. Clients then get a refused connection.
func (c *ControlPlane) StopAPIServer() {
	// A graceful stop takes a second or two. Without etcd it never ends, and the process is killed after the grace period.
	c.apiserver.Stop(5 * time.Second)
}

// KillAPIServer ends the API server with SIGKILL.
func (c *ControlPlane) KillAPIServer() {
	c.apiserver.Kill()
}

// APIServerPID returns the process of the API server, for its memory.
func (c *ControlPlane) APIServerPID() int { return c.apiserver.PID() }

// PauseAPIServer stops the API server with SIGSTOP: connections stay open, the kernel accepts new ones, and nothing is answered.
func (c *ControlPlane) PauseAPIServer() error { return c.apiserver.Signal(syscall.SIGSTOP) }

// ResumeAPIServer continues the API server after [ControlPlane.PauseAPIServer].
func (c *ControlPlane) ResumeAPIServer() error { return c.apiserver.Signal(syscall.SIGCONT) }

// probeAPIServer succeeds once the API server can be used. Being ready is not enough: the namespaces and the Service address allocator follow a
// moment later, so the probe is a dry-run creation of a Service.
func (c *ControlPlane) probeAPIServer(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	client, err := kubernetes.NewForConfig(c.admin)
	if err != nil {
		return err
	}
	if err := client.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error(); err != nil {
		return fmt.Errorf("get /readyz of kube-apiserver: %w", err)
	}
	probe := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "ready-"},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}
	if _, err := client.CoreV1().Services(metav1.NamespaceDefault).Create(ctx, probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
		return fmt.Errorf("create Service (dry run): %w", err)
	}
	return nil
}

func (c *ControlPlane) advertiseAddress() string {
	if first, err := netip.ParsePrefix(c.opts.serviceCIDRs[0]); err == nil && first.Addr().Is6() {
		return "::1"
	}
	return "127.0.0.1"
}
