package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
	"github.com/clusterset/clusterset/test/kube"
)

// namespace is where all exported services lie.
const namespace = "bench"

var scheme = func() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, clustersetv1alpha1.AddToScheme, fabedgev1alpha1.AddToScheme, mcsv1beta1.Install,
	} {
		utilruntime.Must(add(s))
	}
	return s
}()

// cluster is an API server that keeps an audit log of what agents do.
type cluster struct {
	name   string
	plane  *kube.ControlPlane
	client client.Client
	audit  *auditLog
}

func (b *bench) newCluster(ctx context.Context, name, cidr string) (*cluster, error) {
	c := &cluster{name: name, audit: &auditLog{path: filepath.Join(b.dir, name+"-audit.log")}}
	policy := filepath.Join(b.dir, "audit-policy.yaml")
	var err error
	c.plane, err = kube.Launch(ctx, filepath.Join(b.dir, name), kube.WithProgress(os.Stderr), kube.WithServiceCIDRs(cidr), kube.WithAPIServerArgs(
		"--audit-policy-file="+policy, "--audit-log-path="+c.audit.path, "--audit-log-maxsize=100000"))
	if err != nil {
		return nil, err
	}
	c.client, err = client.New(c.plane.Config(), client.Options{Scheme: scheme})
	return c, err
}

// launch starts the hub, near and far with their processes, and joins the two.
func (b *bench) launch(ctx context.Context) error {
	if err := os.WriteFile(filepath.Join(b.dir, "audit-policy.yaml"), []byte(auditPolicy), 0o600); err != nil {
		return err
	}
	b.say("starting three control planes (the first time they are compiled, which takes some minutes)")
	group, inGroup := errgroup.WithContext(ctx)
	for _, c := range []struct {
		to         **cluster
		name, cidr string
	}{{&b.hub, "hub", "10.96.0.0/16"}, {&b.near, "near", "10.97.0.0/16"}, {&b.far, "far", "10.98.0.0/16"}} {
		group.Go(func() (err error) {
			*c.to, err = b.newCluster(inGroup, c.name, c.cidr)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for _, c := range []*cluster{b.near, b.far} {
		if err := b.join(ctx, c); err != nil {
			return err
		}
		if err := c.plane.ApplyContext(ctx, []byte("{apiVersion: v1, kind: Namespace, metadata: {name: "+namespace+"}}")); err != nil {
			return err
		}
	}
	if err := b.startHub(ctx); err != nil {
		return err
	}
	var err error
	if b.farAgent, err = b.startAgent(ctx, b.far); err != nil {
		return err
	}
	if b.nearAgent, err = b.startAgent(ctx, b.near); err != nil {
		return err
	}
	if err := errors.Join(b.synced(ctx, b.farAgent), b.synced(ctx, b.nearAgent)); err != nil {
		return err
	}
	return b.startDNS(ctx)
}

func (b *bench) stop() {
	for _, p := range []*process{b.nearDNS, b.nearAgent, b.farAgent, b.hubProcess} {
		p.kill()
	}
	for _, c := range []*cluster{b.near, b.far, b.hub} {
		if c != nil {
			c.plane.Stop()
		}
	}
}

// join joins a cluster, and puts the credentials where its agent's pod would find them.
func (b *bench) join(ctx context.Context, c *cluster) error {
	err := b.command(ctx, "join", "--hub-kubeconfig", b.hub.plane.Kubeconfig(), "--kubeconfig", c.plane.Kubeconfig(),
		"--name", c.name, "--zone", c.name, "--install-crds")
	if err != nil {
		return err
	}
	var secret corev1.Secret
	if err := c.client.Get(ctx, client.ObjectKey{Namespace: api.SystemNamespace, Name: api.HubSecret}, &secret); err != nil {
		return err
	}
	return os.WriteFile(b.hubKubeconfig(c), secret.Data[api.HubSecretKey], 0o600)
}

func (b *bench) hubKubeconfig(c *cluster) string {
	return filepath.Join(b.dir, c.name+"-hub.kubeconfig")
}

// command runs a command of the CLI to its end.
func (b *bench) command(ctx context.Context, args ...string) error {
	if out, err := exec.CommandContext(ctx, b.clusterset, args...).CombinedOutput(); err != nil { //nolint:gosec // our own binary
		return fmt.Errorf("clusterset %s: %w\n%s", args[0], err, out)
	}
	return nil
}

func (b *bench) startHub(ctx context.Context) error {
	metrics, err := freeAddr()
	if err != nil {
		return err
	}
	b.hubProcess = &process{name: "hub"}
	return b.start(ctx, b.hubProcess, b.clusterset, "hub", "--kubeconfig", b.hub.plane.Kubeconfig(),
		"--metrics-bind-address", metrics, "--health-probe-bind-address", "0")
}

// startAgent starts a member's agent under names of its own on both sides, by which the audit logs know it. Far's only
// exports: what it would import beside near would take the processor from what is measured.
func (b *bench) startAgent(ctx context.Context, c *cluster) (*process, error) {
	kubeconfig, err := c.plane.KubeconfigFor(agentHere, "system:masters")
	if err != nil {
		return nil, err
	}
	p := &process{name: c.name + "-agent"}
	if p.metrics, err = freeAddr(); err != nil {
		return nil, err
	}
	args := []string{
		"member", "--kubeconfig", kubeconfig, "--hub-kubeconfig", b.hubKubeconfig(c), "--heartbeat-interval", "1s",
		"--metrics-bind-address", p.metrics, "--health-probe-bind-address", "0",
	}
	if c == b.far {
		args = append(args, "--exclude-namespaces", "*")
	}
	return p, b.start(ctx, p, b.clusterset, args...)
}

// synced waits until an agent has read everything and compared it once.
func (b *bench) synced(ctx context.Context, p *process) error {
	return b.await(ctx, p, "it has made its first pass", func() (bool, error) {
		m, err := p.scrape(ctx)
		return m.sum("clusterset_exporter_first_pass_done") == 1 && m.sum("clusterset_importer_hub_synced") == 1 && idle(m), err
	})
}

// idle says whether no work is queued or under way.
func idle(m samples) bool {
	return m.sum("workqueue_depth") == 0 && m.sum("controller_runtime_active_workers") == 0
}

// startDNS starts near's CoreDNS.
func (b *bench) startDNS(ctx context.Context) error {
	kubeconfig, err := b.near.plane.KubeconfigFor("clusterset-dns", "system:masters")
	if err != nil {
		return err
	}
	b.nearDNS = &process{name: "near-dns"}
	if b.nearDNS.dns, err = freeAddr(); err != nil {
		return err
	}
	_, port, _ := net.SplitHostPort(b.nearDNS.dns)
	corefile := filepath.Join(b.dir, "Corefile")
	err = os.WriteFile(corefile, fmt.Appendf(nil, `.:%s {
    bind 127.0.0.1
    errors
    clusterset clusterset.local global {
        kubeconfig %s
        location near near
    }
}
`, port, kubeconfig), 0o600)
	if err != nil {
		return err
	}
	if err := b.start(ctx, b.nearDNS, b.coredns, "-conf", corefile); err != nil {
		return err
	}
	return b.await(ctx, b.nearDNS, "it answers", func() (bool, error) {
		answer, err := b.dig("dns-version.clusterset.local.")
		return answer != "SERVFAIL" && err == nil, err
	})
}
