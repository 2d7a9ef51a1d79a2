package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
	testfleet "github.com/clusterset/clusterset/test/fleet"
	"github.com/clusterset/clusterset/test/kube"
	"github.com/clusterset/clusterset/test/process"
)

// member is a cluster of the fleet: an API server, the agent and a CoreDNS.
type member struct {
	cluster
	*testfleet.Metrics // of the agent
	clusterSpec
	number int
	agent  *program
	dns    *dnsServer
	base   *testfleet.Member
}

func newMember(dir string, number int, spec clusterSpec) *member {
	base := testfleet.NewMember(dir, binaries(), location{Cluster: spec.name, Zone: spec.zone, Region: spec.region})
	base.AgentFlags = spec.agent
	m := &member{clusterSpec: spec, number: number, dns: newDNS(base.DNS)}
	return m.on(base)
}

// on returns the member with another agent, or another cluster.
func (m *member) on(base *testfleet.Member) *member {
	other := *m
	other.cluster = cluster{TB: m.TB, Cluster: &base.Cluster}
	other.Metrics, other.agent, other.base = &base.Metrics, base.Agent, base
	return &other
}

func (m *member) launch(ctx context.Context) error {
	// Each member has its own ranges, so an address shows its cluster.
	cidrs := []string{fmt.Sprintf("10.%d.0.0/16", 100+m.number)}
	if m.dualStack {
		cidrs = append(cidrs, fmt.Sprintf("fd00:%d::/112", 100+m.number))
	}
	opts := []kube.Option{
		kube.WithServiceCIDRs(cidrs...),
		// As in OpenShift: an object's creator needs the right to delete its owner, or to update the owner's finalizers if
		// the owner's deletion is to wait for it.
		kube.WithAPIServerArgs("--enable-admission-plugins=OwnerReferencesPermissionEnforcement"),
	}
	if m.controllers {
		opts = append(opts, kube.WithControllerManager())
	}
	return m.Launch(ctx, append(opts, m.options...)...)
}

// prepare joins the member and starts its agent and CoreDNS.
func (m *member) prepare(ctx context.Context, h *hub) error {
	if err := m.join(ctx, h); err != nil {
		return err
	}
	if err := m.Plane.ApplyContext(ctx, rights("member"), rights("dns"), []byte(m.more)); err != nil {
		return err
	}
	if err := m.agent.Start(ctx); err != nil {
		return err
	}
	return m.dns.Start(ctx)
}

// join runs `clusterset join`, and then copies the Secret's content into a file, as the kubelet does for the agent's pod.
func (m *member) join(ctx context.Context, h *hub, flags ...string) error {
	args := []string{"--cidrs", strings.Join(m.cidrs, ",")}
	for _, community := range m.communities {
		args = append(args, "--community", community)
	}
	return m.base.Join(ctx, h.base, append(args, flags...)...)
}

// clustersetCommand runs a command of the CLI to its end.
func clustersetCommand(ctx context.Context, args ...string) error {
	if out, err := binaries().Command(ctx, workDir, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("clusterset %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

func (m *member) of(t testing.TB) *member {
	mine := *m
	mine.TB = t
	mine.dns = m.dns.of(t)
	return &mine
}

// onHub returns a client configuration for the hub with the credentials that join made for the agent.
func (m *member) onHub() *rest.Config {
	m.Helper()
	content, err := os.ReadFile(m.base.HubKubeconfig)
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

// killAgent kills the agent with SIGKILL, as the kernel does when memory is short.
func (m *member) killAgent() { m.agent.Kill() }

// stopAgent stops the agent gracefully.
func (m *member) stopAgent() {
	m.Helper()
	running := m.agent.Running()
	if code := m.agent.Stop(); running && code != 0 {
		m.Errorf("agent of %s: exit code %d\n%s", m.name, code, process.LogSince(m.agent.Log, 0, 20))
	}
}

// startAgent starts the agent with additional flags. It returns once the process is up, whether or not it has reached its
// hub.
func (m *member) startAgent(flags ...string) {
	m.Helper()
	m.base.AgentFlags = slices.Concat(m.clusterSpec.agent, flags)
	if err := m.agent.Start(context.Background()); err != nil {
		m.Fatal(err)
	}
}

// restartAgent stops the agent gracefully and starts it with additional flags.
func (m *member) restartAgent(flags ...string) {
	m.Helper()
	m.stopAgent()
	m.startAgent(flags...)
}

// namespace makes a namespace for the time of the test. When the test ends it un-exports everything in it; without a
// namespace controller the namespace itself stays.
func (m *member) namespace(name string) {
	m.Helper()
	m.apply("{apiVersion: v1, kind: Namespace, metadata: {name: " + name + "}}")
	m.Cleanup(func() {
		// Services first: their mark would create the ServiceExport again.
		for _, all := range []client.Object{&corev1.Service{}, &mcsv1beta1.ServiceExport{}} {
			if err := m.Client.DeleteAllOf(context.Background(), all, client.InNamespace(name), notImported); err != nil {
				m.Errorf("clean up %s: %v", name, err)
			}
		}
	})
}

// notImported selects the objects that the importer didn't write.
var notImported = client.MatchingLabelsSelector{Selector: func() labels.Selector {
	s, err := labels.Parse(api.LabelManagedBy + "!=" + api.ManagedByImporter)
	if err != nil {
		panic(err)
	}
	return s
}()}

// imported is what a member has of an imported service. Fields are nil for missing objects.
type imported struct {
	serviceImport *mcsv1beta1.ServiceImport
	derived       *corev1.Service
	global        *fabedgev1alpha1.GlobalService
	slices        []discoveryv1.EndpointSlice // ours, for this service, by name
}

// imported reads a service's imported objects.
func (m *member) imported(namespace, name string) (imported, error) {
	i := imported{&mcsv1beta1.ServiceImport{}, &corev1.Service{}, &fabedgev1alpha1.GlobalService{}, nil}
	derived := api.DerivedServiceName(namespace, name)
	var errs []error
	missing := func(err error) bool {
		if err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, err)
		}
		return err != nil
	}
	if missing(m.get(namespace, name, i.serviceImport)) {
		i.serviceImport = nil
	}
	if missing(m.get(namespace, derived, i.derived)) {
		i.derived = nil
	}
	if missing(m.get(namespace, name, i.global)) {
		i.global = nil
	}
	var all discoveryv1.EndpointSliceList
	missing(m.list(&all, client.InNamespace(namespace)))
	for _, s := range all.Items {
		if s.Labels[api.LabelServiceName] == name || s.Labels[api.LabelKubernetesServiceName] == derived {
			i.slices = append(i.slices, s)
		}
	}
	slices.SortFunc(i.slices, func(a, b discoveryv1.EndpointSlice) int { return strings.Compare(a.Name, b.Name) })
	return i, errors.Join(errs...)
}

// gone returns nil if nothing is left of an imported service.
func (m *member) gone(namespace, name string) error {
	i, err := m.imported(namespace, name)
	if err != nil {
		return err
	}
	var left []string
	if i.serviceImport != nil {
		left = append(left, "ServiceImport")
	}
	if i.derived != nil {
		left = append(left, "derived Service")
	}
	if i.global != nil {
		left = append(left, "GlobalService")
	}
	for _, s := range i.slices {
		left = append(left, "EndpointSlice "+s.Name)
	}
	if len(left) > 0 {
		return fmt.Errorf("%s/%s: left are %s", namespace, name, strings.Join(left, ", "))
	}
	return nil
}

// vip returns a service's ClusterSetIP of a family in this cluster.
func (m *member) vip(namespace, name string, family corev1.IPFamily) string {
	m.Helper()
	var ip string
	kube.Eventually(m, soon, func() error {
		var imp mcsv1beta1.ServiceImport
		if err := m.get(namespace, name, &imp); err != nil {
			return err
		}
		for _, ip = range imp.Spec.IPs {
			if familyOf(ip) == family {
				return nil
			}
		}
		return fmt.Errorf("%s: %s/%s has the addresses %v", m.name, namespace, name, imp.Spec.IPs)
	})
	return ip
}

// clusterIP returns the cluster IP of a family of a Service in this cluster.
func (m *member) clusterIP(namespace, name string, family corev1.IPFamily) string {
	m.Helper()
	var svc corev1.Service
	if err := m.get(namespace, name, &svc); err != nil {
		m.Fatal(err)
	}
	for _, ip := range svc.Spec.ClusterIPs {
		if familyOf(ip) == family {
			return ip
		}
	}
	m.Fatalf("%s: Service %s/%s has the addresses %v", m.name, namespace, name, svc.Spec.ClusterIPs)
	return ""
}

// exportIs returns nil if a ServiceExport has the condition with that status and reason.
func (m *member) exportIs(namespace, name string, kind mcsv1beta1.ServiceExportConditionType, status, reason string) error {
	var export mcsv1beta1.ServiceExport
	if err := m.get(namespace, name, &export); err != nil {
		return err
	}
	c := condition(export.Status.Conditions, string(kind))
	if c == nil || string(c.Status) != status || c.Reason != reason {
		return fmt.Errorf("%s: %s of ServiceExport %s/%s is %+v, want %s, %s", m.name, kind, namespace, name, c, status, reason)
	}
	return nil
}

// hasEvent returns nil if there is an Event with the reason about the object, and its note contains the words.
func (c *cluster) hasEvent(kind, namespace, name, reason string, words ...string) error {
	var events eventsv1.EventList
	if err := c.list(&events); err != nil {
		return err
	}
	var seen []string
	for _, e := range events.Items {
		if e.Regarding.Kind != kind || e.Regarding.Namespace != namespace || e.Regarding.Name != name {
			continue
		}
		if e.Reason == reason && !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(e.Note, w) }) {
			return nil
		}
		seen = append(seen, e.Reason+": "+e.Note)
	}
	return fmt.Errorf("%s %s/%s has no Event %s with %q, only %q", kind, namespace, name, reason, words, seen)
}
