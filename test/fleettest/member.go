package fleettest

import (
	"context"
	"fmt"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/test/fleet"
	"github.com/clusterset/clusterset/test/kube"
	"github.com/clusterset/clusterset/test/process"
)

// Member is a cluster of the fleet: an API server, the agent and a CoreDNS.
type Member struct {
	Cluster
	*fleet.Metrics // of the agent
	Spec           Spec
	Number         int // among the fleet's members, from 0
	Agent          *fleet.Program
	DNS            *DNS
	Base           *fleet.Member
}

func newMember(dir string, number int, spec Spec) *Member {
	base := fleet.NewMember(dir, Binaries(), fleet.Location{Cluster: spec.Name, Zone: spec.Zone, Region: spec.Region})
	m := &Member{Spec: spec, Number: number, DNS: NewDNS(base.DNS)}
	return m.on(base)
}

// on returns a copy of the member with another agent, or in another cluster.
func (m *Member) on(base *fleet.Member) *Member {
	other := *m
	other.Cluster = Cluster{TB: m.TB, Cluster: &base.Cluster}
	other.Metrics, other.Agent, other.Base = &base.Metrics, base.Agent, base
	return &other
}

func (m *Member) launch(ctx context.Context) error {
	// Each member has its own ranges, so an address identifies its cluster.
	cidrs := []string{fmt.Sprintf("10.%d.0.0/16", 100+m.Number)}
	if m.Spec.DualStack {
		cidrs = append(cidrs, fmt.Sprintf("fd00:%d::/112", 100+m.Number))
	}
	opts := []kube.Option{
		kube.WithServiceCIDRs(cidrs...),
		// As in OpenShift: changing an existing object's owners needs the right to delete that object. Setting
		// blockOwnerDeletion needs the right to update the owner's finalizers.
		kube.WithAPIServerArgs("--enable-admission-plugins=OwnerReferencesPermissionEnforcement"),
	}
	if m.Spec.Controllers {
		opts = append(opts, kube.WithControllerManager())
	}
	return m.Launch(ctx, append(opts, m.Spec.Options...)...)
}

// prepare joins the member and starts its agent and CoreDNS.
func (m *Member) prepare(ctx context.Context, h *Hub) error {
	if err := m.Join(ctx, h); err != nil {
		return err
	}
	if err := m.Plane.ApplyContext(ctx, fleet.Rights("member"), fleet.Rights("dns"), []byte(m.Spec.More)); err != nil {
		return err
	}
	if err := m.Agent.Start(ctx); err != nil {
		return err
	}
	return m.DNS.Program.Start(ctx)
}

// Join runs `clusterset join`, and then copies the Secret's content into a file, as the kubelet does for the agent's pod.
func (m *Member) Join(ctx context.Context, h *Hub, flags ...string) error {
	var args []string
	for _, community := range m.Spec.Communities {
		args = append(args, "--community", community)
	}
	return m.Base.Join(ctx, h.Base, append(args, flags...)...)
}

// For returns the member for a test.
func (m *Member) For(t testing.TB) *Member {
	mine := *m
	mine.TB = t
	mine.DNS = m.DNS.For(t)
	return &mine
}

// OnHub returns a client configuration for the hub with the credentials that join made for the agent.
func (m *Member) OnHub() *rest.Config {
	m.Helper()
	content, err := os.ReadFile(m.Base.HubKubeconfig)
	if err != nil {
		m.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(content)
	if err != nil {
		m.Fatal(err)
	}
	config.QPS = -1
	return config
}

// KillAgent kills the agent with SIGKILL, as the kernel does when memory is short.
func (m *Member) KillAgent() { m.Agent.Kill() }

// StopAgent stops the agent gracefully.
func (m *Member) StopAgent() {
	m.Helper()
	running := m.Agent.Running()
	if code := m.Agent.Stop(); running && code != 0 {
		m.Errorf("agent of %s: exit code %d\n%s", m.Spec.Name, code, process.LogSince(m.Agent.Log, 0, 20))
	}
}

// StartAgent starts the agent with additional flags. It returns once the process is up, whether or not it has reached its
// hub.
func (m *Member) StartAgent(flags ...string) {
	m.Helper()
	m.Base.AgentFlags = flags
	if err := m.Agent.Start(context.Background()); err != nil {
		m.Fatal(err)
	}
}

// RestartAgent stops the agent gracefully and starts it with additional flags.
func (m *Member) RestartAgent(flags ...string) {
	m.Helper()
	m.StopAgent()
	m.StartAgent(flags...)
}

// Reaches returns nil if the member's verdict on another one is that it can be reached.
func (m *Member) Reaches(other string) error {
	var r clustersetv1alpha1.Reachability
	if err := m.Get("", clustersetv1alpha1.ReachabilityName, &r); err != nil {
		return err
	}
	for i := range r.Clusters {
		if c := &r.Clusters[i]; c.Name == other && c.Reachable == metav1.ConditionTrue {
			return nil
		}
	}
	return fmt.Errorf("%s: its Reachability says %v; want %s to be True", m.Spec.Name, r.Clusters, other)
}

// Namespace makes a namespace for the test. When the test ends, everything in it is un-exported. Without a namespace
// controller, the namespace itself stays.
func (m *Member) Namespace(name string) {
	m.Helper()
	m.Apply("{apiVersion: v1, kind: Namespace, metadata: {name: " + name + "}}")
	m.Cleanup(func() {
		// Delete the Services first: a marked Service would get its ServiceExport back.
		selector := &metav1.ListOptions{LabelSelector: api.LabelManagedBy + "!=" + api.ManagedByImporter}
		notImported := &client.DeleteAllOfOptions{ListOptions: client.ListOptions{Namespace: name, Raw: selector}}
		for _, all := range []client.Object{&corev1.Service{}, &mcsv1beta1.ServiceExport{}} {
			if err := m.Client.DeleteAllOf(context.Background(), all, notImported); err != nil {
				m.Errorf("clean up %s: %v", name, err)
			}
		}
	})
}
