package importer

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/test/records"
)

// If the API server refuses a ServiceImport's update, its slices still follow the records, unless they would be those of another type. As long
// as the ServiceImport has an address, that leads somewhere. Its status says so until it is written. Rules C31 and C32 of docs/spec/control-plane.md.
func TestARefusedImportKeepsItsEndpointsUpToDate(t *testing.T) {
	becomes := func(kind mcsv1beta1.ServiceImportType) func(*rig, *clustersetv1alpha1.ExportedService) {
		return func(_ *rig, s *clustersetv1alpha1.ExportedService) { s.Spec.Type = kind }
	}
	for _, c := range []struct {
		change  string
		from    mcsv1beta1.ServiceImportType
		path    desired.DataPath
		do      func(*rig, *clustersetv1alpha1.ExportedService)
		written bool
	}{
		{"labels", mcsv1beta1.Headless, desired.DataPathPods, func(_ *rig, s *clustersetv1alpha1.ExportedService) {
			s.Spec.ExportedLabels = map[string]string{"team": "pay"}
		}, true},
		{"to an address", mcsv1beta1.Headless, desired.DataPathPods, becomes(mcsv1beta1.ClusterSetIP), false},
		{"from pods", mcsv1beta1.ClusterSetIP, desired.DataPathPods, becomes(mcsv1beta1.Headless), false},
		{"from ClusterIPs", mcsv1beta1.ClusterSetIP, desired.DataPathClusterIPs, becomes(mcsv1beta1.Headless), false},
		{"no data path", mcsv1beta1.ClusterSetIP, desired.DataPathPods, func(g *rig, _ *clustersetv1alpha1.ExportedService) {
			g.options.DataPath = desired.DataPathNone
		}, false},
	} {
		t.Run(c.change, func(t *testing.T) {
			g := newRig(Options{DataPath: c.path})
			g.hub.put(memberAt("a", "zone-0"))
			service := exportedBy("a", c.from, 1)
			g.hub.put(service)
			g.hub.put(endpointsOf("a", 1, 0, 2))
			g.reconcile(t)
			_, was := g.gathered(t)
			service = service.DeepCopy()
			c.do(g, service)
			g.hub.put(service)
			g.flip("a", false)
			g.local.client = refusing{g.here, "ServiceImport"}
			g.here.writes = nil
			if _, err := g.Reconcile(t.Context(), reconcile.Request{NamespacedName: web}); refusal(err) == "" {
				t.Errorf("error %v, want what the API server says", err)
			}
			written := slices.ContainsFunc(g.here.writes, func(w string) bool { return strings.HasPrefix(w, "update EndpointSlice") })
			if written != c.written {
				t.Errorf("wrote %v, want slices: %v", g.here.writes, c.written)
			}
			_, cur := g.gathered(t)
			if was.Derived != nil && cur.Derived == nil {
				t.Error("the derived Service is gone, and the ServiceImport has its address")
			}
			if n := behind(cur); n != behind(was) || (n > 0) != (c.from == mcsv1beta1.ClusterSetIP) {
				t.Errorf("%d slices are behind the derived Service, and %d before", n, behind(was))
			}
			of := cur.Slices[slices.IndexFunc(cur.Slices, func(s *discoveryv1.EndpointSlice) bool { return s.Labels[api.LabelServiceName] != "" })]
			if ready := *of.Endpoints[0].Conditions.Ready; ready == c.written {
				t.Errorf("the endpoint that isn't ready any more is ready: %v", ready)
			}
			if owner := of.OwnerReferences[0]; owner.UID != cur.ServiceImport.UID {
				t.Errorf("the slice belongs to %v, want %s", owner, cur.ServiceImport.UID)
			}
			const refused = "not all could be written: the API server says: "
			if says := g.leftOut(); !strings.Contains(says, refused) {
				t.Errorf("the condition is %q", says)
			}
			g.local.client = g.here
			g.reconcile(t)
			if says := g.leftOut(); strings.Contains(says, refused) {
				t.Errorf("it is written, and the condition is %q", says)
			}
		})
	}
}

// behind counts the slices that kube-proxy reads.
func behind(cur desired.Current) (n int) {
	for _, s := range cur.Slices {
		if records.Routed(s) {
			n++
		}
	}
	return n
}

// What somebody adds to a derived Service goes, whether the API server would let the agent write it or not. Its addresses stay. Rules C79 of
// docs/spec/control-plane.md and D27 of docs/spec/data-path.md.
func TestForeignFieldsOfTheDerivedServiceAreUndone(t *testing.T) {
	g := newRig(Options{DataPath: desired.DataPathPods})
	g.hub.put(memberAt("a", "zone-0"))
	g.hub.put(exportedBy("a", mcsv1beta1.ClusterSetIP, 1))
	g.hub.put(endpointsOf("a", 1, 0, 1))
	g.reconcile(t)
	_, cur := g.gathered(t)
	want, edited := cur.Derived.Spec, cur.Derived.DeepCopy()
	s := &edited.Spec
	s.Selector, s.ExternalIPs = map[string]string{"app": "web"}, []string{"192.0.2.1"}
	s.LoadBalancerIP, s.LoadBalancerSourceRanges, s.LoadBalancerClass = "192.0.2.1", []string{"192.0.2.0/24"}, ptr.To("example.com/lb")
	s.ExternalName, s.ExternalTrafficPolicy, s.HealthCheckNodePort = "example.org", corev1.ServiceExternalTrafficPolicyLocal, 30000
	s.PublishNotReadyAddresses, s.AllocateLoadBalancerNodePorts = true, ptr.To(true)
	s.TrafficDistribution = ptr.To(corev1.ServiceTrafficDistributionPreferClose)
	s.Ports[0].NodePort = 30001
	g.here.put(edited)
	g.reconcile(t)
	if _, cur = g.gathered(t); !equality.Semantic.DeepEqual(cur.Derived.Spec, want) {
		t.Errorf("got %+v\nwant %+v", cur.Derived.Spec, want)
	}
	if len(want.ClusterIPs) == 0 {
		t.Error("the derived Service has no address")
	}
}

// A change writes each object that differs, once, and nothing else. Rule D28 of docs/spec/data-path.md.
func TestAChangeWritesWhatDiffers(t *testing.T) {
	g := newRig(Options{DataPath: desired.DataPathPods})
	a, b, service := memberAt("a", "zone-0"), memberAt("b", "zone-1"), exportedBy("a", mcsv1beta1.ClusterSetIP, 1)
	for _, c := range []struct {
		what string
		do   func()
		want string
	}{
		{"two clusters export it", func() {
			for _, o := range []client.Object{a, b, service, endpointsOf("a", 1, 0, 1), exportedBy("b", mcsv1beta1.ClusterSetIP, 2), endpointsOf("b", 2, 0, 1)} {
				g.hub.put(o)
			}
		}, "create Service, create ServiceImport, create EndpointSlice, create EndpointSlice, create GlobalService"},
		{"a record is written again", func() { g.hub.put(service) }, ""},
		{"the ranks stay", func() { b.Spec.CIDRs = []string{"10.0.0.0/8"}; g.hub.put(b) }, ""},
		{"one is drained", func() { a.Spec.Drain = true; g.hub.put(a) }, "update EndpointSlice, update EndpointSlice"},
		{"its endpoint isn't ready", func() { g.flip("a", false) }, "update EndpointSlice, update GlobalService"},
	} {
		if c.do(); g.written(t) != c.want {
			t.Errorf("%s: wrote %q, want %s", c.what, g.here.writes, c.want)
		}
	}
}

// An object of somebody else with the name of one of ours is named for as long as it is there, and the rest is written. Rules C31 and C36 of
// docs/spec/control-plane.md.
func TestAServiceImportSaysWhatIsInTheWay(t *testing.T) {
	in := metav1.ObjectMeta{Namespace: web.Namespace, Name: web.Name}
	slice := in
	slice.Name = desired.SliceName("a", web.Name, endpointsOf("a", 1, 0, 1).Name)
	for _, theirs := range []client.Object{
		derivedOf(web), &discoveryv1.EndpointSlice{ObjectMeta: slice}, &fabedgev1alpha1.GlobalService{ObjectMeta: in},
	} {
		t.Run(kindOf(theirs), func(t *testing.T) {
			g := newRig(Options{DataPath: desired.DataPathPods})
			g.hub.put(memberAt("a", "zone-0"))
			g.hub.put(exportedBy("a", mcsv1beta1.ClusterSetIP, 1))
			g.hub.put(endpointsOf("a", 1, 0, 1))
			g.here.put(theirs)
			want := kindOf(theirs) + " " + client.ObjectKeyFromObject(theirs).String() + " exists and isn't the importer's; delete or rename it"
			says := func() bool {
				g.reconcile(t)
				_, cur := g.gathered(t)
				return slices.ContainsFunc(cur.ServiceImport.Status.Conditions, func(c metav1.Condition) bool {
					return c.Status == metav1.ConditionFalse && strings.Contains(c.Message, want)
				})
			}
			if !says() {
				t.Errorf("the ServiceImport doesn't say %q", want)
			}
			if err := g.here.Delete(t.Context(), theirs); err != nil {
				t.Fatal(err)
			}
			if says() {
				t.Errorf("it says %q, which is gone", want)
			}
		})
	}
}
