package e2e

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/test/fleettest"
)

func TestMain(m *testing.M) { fleettest.MainWithBeacons(m) }

// cities returns the shared fleet of FabDNS's example. All clusters but shijiazhuang are dual-stack; xicheng has controllers.
func cities(t *testing.T) *fleettest.Fleet {
	t.Helper()
	f := fleettest.Shared(t, "cities", 1,
		fleettest.Spec{Name: "xicheng", Zone: "beijing", Region: "north", DualStack: true, Controllers: true},
		fleettest.Spec{Name: "chaoyang", Zone: "beijing", Region: "north", DualStack: true},
		fleettest.Spec{Name: "minhang", Zone: "shanghai", Region: "south", DualStack: true},
		fleettest.Spec{Name: "shijiazhuang", Zone: "hebei", Region: "north"},
	)
	f.Settle()
	return f
}

// outages returns one of the two shared fleets for tests that kill processes. tianjin is the nearest cluster to beijing, by region. Each
// cluster measures which others it reaches.
func outages(t *testing.T) *fleettest.Fleet {
	t.Helper()
	f := fleettest.Shared(t, "outages", 2,
		fleettest.Spec{Name: "beijing", Zone: "beijing", Region: "north", Beacons: true},
		fleettest.Spec{Name: "tianjin", Zone: "tianjin", Region: "north", Beacons: true},
		fleettest.Spec{Name: "shanghai", Zone: "shanghai", Region: "south", Beacons: true},
	)
	f.Settle()
	t.Cleanup(func() { // a test may leave processes stopped
		f.Hub.StartAPIServer()
		for _, m := range f.Members {
			m.StartAPIServer()
			m.StartAgent()
			m.DNS.Start()
		}
		f.Hub.Restart()
		f.Settle()
		f.Eventually(func(m *fleettest.Member) error { // what nobody can write down would stay for a day (C41), in the next test too
			if names, err := f.Hub.Records(m.Spec.Name); err != nil || len(names) > 0 {
				return fmt.Errorf("the hub has %v, %w", names, err)
			}
			return nil
		})
	})
	return f
}

const (
	// httpPort is the spec of a Service with one port, and port8080 the port of its slices.
	httpPort = "ports: [{name: http, port: 80, targetPort: 8080}]"
	port8080 = "{name: http, port: 8080}"
	headless = "clusterIP: None, " + httpPort

	v4, v6 = corev1.IPv4Protocol, corev1.IPv6Protocol
)

// service returns a Service without a selector. The spec is in YAML's flow style, without its braces.
func service(ns, name, spec string) string {
	return fmt.Sprintf("{apiVersion: v1, kind: Service, metadata: {namespace: %s, name: %s}, spec: {%s}}", ns, name, spec)
}

// annotated returns a Service with an annotation.
func annotated(ns, name, key, spec string) string {
	return fmt.Sprintf(`{apiVersion: v1, kind: Service, metadata: {namespace: %s, name: %s, annotations: {%s: "true"}}, spec: {%s}}`, ns, name, key, spec)
}

// fabDNS is FabDNS's annotation.
const fabDNS = "fabedge.io/global-service"

func export(ns, name, spec string) string {
	return fmt.Sprintf("{apiVersion: multicluster.x-k8s.io/v1beta1, kind: ServiceExport, metadata: {namespace: %s, name: %s}, spec: {%s}}", ns, name, spec)
}

// exportWith returns a ServiceExport with annotations, which are in YAML's flow style.
func exportWith(ns, name, annotations string) string {
	return fmt.Sprintf("{apiVersion: multicluster.x-k8s.io/v1beta1, kind: ServiceExport, metadata: {namespace: %s, name: %s, annotations: {%s}}}", ns, name, annotations)
}

// exported returns a Service and its ServiceExport.
func exported(ns, name, spec string) string {
	return service(ns, name, spec) + "\n---\n" + export(ns, name, "")
}

// slice returns an EndpointSlice of IPv4 of a Service, as if made by hand. Ports and endpoints are in YAML's flow style.
func slice(ns, service, ports string, endpoints ...string) string {
	return fmt.Sprintf(`
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {namespace: %s, name: %s-1, labels: {kubernetes.io/service-name: %s}}
addressType: IPv4
ports: [%s]
endpoints: [%s]
`, ns, service, service, ports, strings.Join(endpoints, ", "))
}

// endpoint returns an endpoint for slice, with an address and further fields.
func endpoint(address string, fields ...string) string {
	return fmt.Sprintf("{%s}", strings.Join(append([]string{fmt.Sprintf("addresses: [%q]", address)}, fields...), ", "))
}

// importedFrom returns nil if a service's ServiceImport is ready and is from exactly these clusters.
func importedFrom(m *fleettest.Member, ns, name string, clusters ...string) error {
	var imp mcsv1beta1.ServiceImport
	if err := m.Get(ns, name, &imp); err != nil {
		return err
	}
	var got []string
	for _, c := range imp.Status.Clusters {
		got = append(got, c.Cluster)
	}
	slices.Sort(got)
	c := fleettest.Condition(imp.Status.Conditions, string(mcsv1beta1.ServiceImportConditionReady))
	if !slices.Equal(got, slices.Sorted(slices.Values(clusters))) || c == nil || c.Status != metav1.ConditionTrue {
		return fmt.Errorf("%s: %s/%s is imported from %v, want %v, and Ready is %+v", m.Spec.Name, ns, name, got, clusters, c)
	}
	return nil
}

// onHub returns a member's records of one namespace on the hub: each one's resourceVersion, by its name, and the addresses of each service.
func onHub(h *fleettest.Hub, member, ns string) (versions, addresses map[string]string, err error) {
	var services clustersetv1alpha1.ExportedServiceList
	var endpoints clustersetv1alpha1.ExportedEndpointsList
	in := client.InNamespace(api.MemberNamespace(member))
	err = errors.Join(h.List(&services, in), h.List(&endpoints, in))
	versions, addresses = map[string]string{}, map[string]string{}
	for _, s := range services.Items {
		if s.Spec.ServiceNamespace == ns {
			versions[s.Name] = s.ResourceVersion
		}
	}
	for _, e := range endpoints.Items {
		if e.Spec.ServiceNamespace != ns {
			continue
		}
		versions[e.Name] = e.ResourceVersion
		for _, endpoint := range e.Spec.Endpoints {
			addresses[e.Spec.ServiceName] += strings.Join(endpoint.Addresses, " ")
		}
	}
	return versions, addresses, err
}

// holds returns nil if the hub has that address, and no other, for a member's service.
func holds(h *fleettest.Hub, member, ns, name, address string) error {
	_, has, err := onHub(h, member, ns)
	if err == nil && has[name] != address {
		err = fmt.Errorf("the hub has %q of %s/%s of %s, want %s", has[name], ns, name, member, address)
	}
	return err
}

// versions returns the resourceVersions of a member's records of one namespace on the hub.
func versions(h *fleettest.Hub, member, ns string) string {
	h.Helper()
	all, _, err := onHub(h, member, ns)
	if err != nil {
		h.Fatal(err)
	}
	return fmt.Sprint(all)
}

// patchMember changes a cluster's MemberCluster on the hub.
func patchMember(f *fleettest.Fleet, cluster, patch string) {
	f.Helper()
	mc := &clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: cluster}}
	if err := f.Hub.Client.Patch(context.Background(), mc, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil { // cleanups use it too
		f.Errorf("patch MemberCluster %s: %v", cluster, err)
	}
}

// metricIs returns nil if a process's metric has that value.
func metricIs(of interface {
	Sum(name string, labels ...string) (float64, error)
}, want float64, name string, labels ...string,
) error {
	got, err := of.Sum(name, labels...)
	if err == nil && got != want {
		err = fmt.Errorf("%s %q is %v, want %v", name, labels, got, want)
	}
	return err
}

// waitsFor returns nil if a member's importer waits for so many clusters that the hub has lost.
func waitsFor(m *fleettest.Member, clusters int) error {
	return metricIs(m.Metrics, float64(clusters), "clusterset_importer_awaited_clusters")
}

// nothingHeld returns nil if no importer holds an import that the hub doesn't have.
func nothingHeld(f *fleettest.Fleet) error {
	var errs []error
	for _, m := range f.Members {
		errs = append(errs, metricIs(m.Metrics, 0, "clusterset_importer_services", "state", "held"))
	}
	return errors.Join(errs...)
}

// clustersetCommand runs a command of the CLI and waits until it ends.
func clustersetCommand(ctx context.Context, args ...string) error {
	if out, err := fleettest.Binaries().Command(ctx, filepath.Dir(fleettest.Binaries().Clusterset), args...).CombinedOutput(); err != nil {
		return fmt.Errorf("clusterset %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

// deleteRecords deletes a member's records on the hub.
func deleteRecords(h *fleettest.Hub, member string) {
	h.Helper()
	for _, all := range []client.Object{&clustersetv1alpha1.ExportedService{}, &clustersetv1alpha1.ExportedEndpoints{}} {
		if err := h.Client.DeleteAllOf(context.Background(), all, client.InNamespace(api.MemberNamespace(member))); err != nil {
			h.Fatal(err)
		}
	}
}

// lose removes a MemberCluster from the hub, as a restore from an older backup does. It stops the hub process meanwhile, because that would add
// the finalizer again.
func lose(f *fleettest.Fleet, name string) {
	f.Helper()
	f.Hub.Kill()
	patchMember(f, name, `{"metadata":{"finalizers":null}}`)
	err := f.Hub.Client.Delete(context.Background(), &clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name}})
	if client.IgnoreNotFound(err) != nil { // one that is being deleted goes with its finalizer
		f.Fatal(err)
	}
	f.Hub.Start(f.Hub.Base.Flags...)
}

// asked are the answers that each member's DNS must give, by name.
type asked map[*fleettest.Member]map[string]string

// everywhere exports services from all members, and returns the answers. All members export "web". Only beijing exports "only", which is
// headless.
func everywhere(f *fleettest.Fleet, ns string) asked {
	f.Helper()
	for _, m := range f.Members {
		m.Apply(exported(ns, "web", httpPort), slice(ns, "web", port8080, endpoint(fmt.Sprintf("10.20%d.12.1", m.Number))))
	}
	f.Member("beijing").Apply(exported(ns, "only", headless), slice(ns, "only", port8080, endpoint("10.200.12.2")))
	want := asked{}
	for _, m := range f.Members {
		want[m] = map[string]string{
			"web." + ns + ".svc.global":            m.ClusterIP(ns, "web", v4),
			"web." + ns + ".svc.clusterset.local":  m.VIP(ns, "web", v4),
			"only." + ns + ".svc.clusterset.local": "10.200.12.2",
			"only." + ns + ".svc.global":           "10.200.12.2",
			"beijing.web." + ns + ".svc.global":    f.Member("beijing").ClusterIP(ns, "web", v4),
			"shanghai.web." + ns + ".svc.global":   f.Member("shanghai").ClusterIP(ns, "web", v4),
		}
	}
	want.are(f)
	return want
}

// are waits until every member's DNS gives the answers.
func (want asked) are(f *fleettest.Fleet) {
	f.Helper()
	f.Eventually(func(m *fleettest.Member) error {
		var errs []error
		for name, answer := range want[m] {
			errs = append(errs, m.DNS.Answers(name, "A", answer))
		}
		return errors.Join(errs...)
	})
}

// throughout asks all these questions over and over, until the returned function is called. Any other answer fails the test.
func (want asked) throughout() (stop func()) {
	var stops []func()
	for m, answers := range want {
		for name, answer := range answers {
			stops = append(stops, m.DNS.Alongside(name, "A", answer))
		}
	}
	return func() {
		for _, s := range stops {
			s()
		}
	}
}
