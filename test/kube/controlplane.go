package kube

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/keyutil"

	"github.com/clusterset/clusterset/test/process"
)

// startTimeout bounds the start of one process. A start takes seconds, but longer while the rest of the test suite compiles: on a busy machine,
// kube-apiserver once waited 77 s before it created the default roles.
const startTimeout = 5 * time.Minute

// ControlPlane is a running Kubernetes control plane. The methods that start
// and stop its processes must not be called concurrently; the others may.
type ControlPlane struct {
	dir       string // data, keys, logs
	socketDir string
	bin       Binaries
	opts      options

	authority *Authority
	port      *reservedPort
	admin     *rest.Config
	resources *Resources

	etcd, apiserver, controllerManager *process.Process
}

// Launch starts a control plane that keeps its data, keys and logs in dir, and returns when it can be used. ctx bounds the launch only; the
// caller must call [ControlPlane.Stop]. Tests use [Start].
//
// In a folder that an earlier launch used, the control plane serves the objects stored there, with new certificates and on another port.
func Launch(ctx context.Context, dir string, opts ...Option) (_ *ControlPlane, err error) {
	bin, err := Build(ctx, opts...)
	if err != nil {
		return nil, err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, fmt.Errorf("launch control plane: %w", err)
	}

	c := &ControlPlane{dir: dir, bin: bin, opts: newOptions(opts)}
	defer func() {
		if err != nil {
			c.Stop()
		}
	}()
	if err := c.prepare(); err != nil {
		return nil, fmt.Errorf("launch control plane: %w", err)
	}
	if err := c.StartEtcd(ctx); err != nil {
		return nil, err
	}
	if err := c.StartAPIServer(ctx); err != nil {
		return nil, err
	}
	if c.opts.controllerManager {
		if err := c.StartControllerManager(ctx); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// prepare makes everything that the processes need: a port, a folder for the socket, keys and certificates.
func (c *ControlPlane) prepare() (err error) {
	if c.port, err = reservePort(); err != nil {
		return err
	}
	if c.socketDir, err = os.MkdirTemp("", "kube-"); err != nil {
		return err
	}
	if c.authority, err = NewAuthority(); err != nil {
		return err
	}
	_, cert, key, err := c.authority.CertificateFor("127.0.0.1", "::1", "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
	if err != nil {
		return err
	}
	tokens, err := keyutil.MakeEllipticPrivateKeyPEM() // signs the tokens of service accounts
	if err != nil {
		return err
	}
	pki := filepath.Join(c.dir, "pki")
	if err := os.MkdirAll(pki, 0o700); err != nil {
		return err
	}
	for name, content := range map[string][]byte{
		"ca.crt":              c.authority.pem,
		"apiserver.crt":       cert,
		"apiserver.key":       key,
		"service-account.key": tokens,
	} {
		if err := os.WriteFile(filepath.Join(pki, name), content, 0o600); err != nil {
			return err
		}
	}
	// RBAC lets system:masters do everything, before any role exists.
	c.admin = c.ConfigFor("admin", "system:masters")
	if err := c.writeKubeconfig(c.Kubeconfig(), c.admin); err != nil {
		return err
	}
	c.resources, err = NewResources(c.admin)
	return err
}

// start runs a program unless it runs already, and waits until probe succeeds. If it doesn't, start kills the program and leaves p as it was.
func (c *ControlPlane) start(ctx context.Context, p **process.Process, path string, args []string, probe func(context.Context) error) error {
	if (*p).Running() {
		return nil
	}
	// Not ctx, because the process outlives the call.
	cmd := exec.CommandContext(context.Background(), path, args...)
	// The caller's environment isn't passed on, because the programs would obey KUBECONFIG, KUBERNETES_SERVICE_HOST, ETCD_* and proxy settings.
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir(),
		// Garbage collection takes a third of the processor time that kube-apiserver needs to start, and tests start it by the dozen. Collecting
		// less costs memory instead.
		"GOGC=400",
		// But not all of it: those of a hub and a member of 250 clusters must fit into 24 GiB.
		"GOMEMLIMIT=7GiB",
		// Dozens of idle servers that look for work on two processors each take a seventh more than on one.
		"GOMAXPROCS=1",
	}, c.opts.env...)
	name := filepath.Base(path)
	started, err := process.StartWithLog(cmd, c.log(name))
	if err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	if err := started.Await(ctx, startTimeout, probe); err != nil {
		started.Kill()
		return fmt.Errorf("wait for %s: %w\n%s", name, err, process.LogSince(c.log(name), 0, 20))
	}
	*p = started
	return nil
}

func (c *ControlPlane) log(program string) string { return filepath.Join(c.dir, program+".log") }

// Stop ends the control plane. Its folder stays.
func (c *ControlPlane) Stop() {
	c.StopControllerManager()
	c.StopAPIServer()
	c.StopEtcd()
	c.port.release()
	if c.socketDir != "" {
		_ = os.RemoveAll(c.socketDir)
	}
}

// logs returns the last lines of each process's log.
func (c *ControlPlane) logs() []string {
	var tails []string
	for _, of := range []struct {
		path string
		*process.Process
	}{{c.bin.Etcd, c.etcd}, {c.bin.APIServer, c.apiserver}, {c.bin.ControllerManager, c.controllerManager}} {
		if of.Process != nil {
			tails = append(tails, process.LogSince(c.log(filepath.Base(of.path)), 0, 40))
		}
	}
	return tails
}
