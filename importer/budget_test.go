package importer

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
	"github.com/clusterset/clusterset/test/kube"
)

// exporters returns a rig that has imported shop/web from this cluster and two others, with a small write budget
// that the thief has used up.
func exporters(t *testing.T, kind mcsv1beta1.ServiceImportType) *rig {
	t.Helper()
	lateGauge.Reset()
	g := newRig(Options{WriteRate: 1 << 10, WriteBurst: 32 << 10})
	for i, name := range []string{"here", "honest", "thief"} {
		g.hub.put(memberAt(name, "zone-0"))
		g.hub.put(exportedBy(name, kind, i))
		if name != "here" {
			g.hub.put(endpointsOf(name, i, 0, 20))
		}
	}
	g.hub.put(endpointsOf("thief", 2, 1, 20))
	g.ownEndpoint("10.9.0.1")
	g.reconcile(t)
	for i := range 1000 {
		g.flip("thief", i%2 == 1)
		g.reconcile(t)
		if a := g.budget.of["thief"]; len(a.late) > 0 {
			return g
		}
	}
	t.Fatal("a thousand changes don't use up the budget")
	return nil
}

func (g *rig) ownEndpoint(address string) {
	g.here.put(&corev1.Service{ObjectMeta: here("web")})
	name, protocol, port := "http", corev1.ProtocolTCP, int32(8080)
	slice := &discoveryv1.EndpointSlice{ObjectMeta: here("web-x"), AddressType: discoveryv1.AddressTypeIPv4}
	slice.Labels = map[string]string{discoveryv1.LabelServiceName: "web"}
	slice.Ports = []discoveryv1.EndpointPort{{Name: &name, Protocol: &protocol, Port: &port}}
	slice.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{address}}}
	g.here.put(slice)
}

func here(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "shop", Name: name} }

// has returns how many endpoints of a cluster are imported and ready, in its slices and in the GlobalService.
func (g *rig) has(t *testing.T, cluster string) (routed, global int) {
	t.Helper()
	_, cur := g.gathered(t)
	for _, s := range cur.Slices {
		for _, e := range s.Endpoints {
			if s.Labels[api.LabelSourceCluster] == cluster && *e.Conditions.Ready {
				routed++
			}
		}
	}
	for _, e := range cur.Global.Spec.Endpoints {
		if e.Cluster == cluster && e.IsReady() {
			global++
		}
	}
	return routed, global
}

func (g *rig) want(t *testing.T, what, cluster string, endpoints int) {
	t.Helper()
	if routed, global := g.has(t, cluster); routed != endpoints || global != endpoints {
		t.Errorf("%s: %s has %d ready endpoints in slices and %d in the GlobalService, want %d", what, cluster, routed, global, endpoints)
	}
}

// A cluster that keeps changing its records waits; nobody else does, and what it takes away doesn't. Rule C39 of
// docs/spec/control-plane.md.
func TestChangesBeyondTheBudgetWait(t *testing.T) {
	t.Run("others don't", func(t *testing.T) {
		g := exporters(t, mcsv1beta1.Headless)
		g.flip("honest", false)
		g.reconcile(t)
		g.want(t, "another cluster's change", "honest", 19)
		g.ownEndpoint("10.9.0.2")
		g.reconcile(t)
		if _, cur := g.gathered(t); !slices.ContainsFunc(cur.Global.Spec.Endpoints, func(e fabedgev1alpha1.Endpoint) bool { return e.Addresses[0] == "10.9.0.2" }) {
			t.Error("this cluster's own change waits")
		}
	})
	t.Run("nor does what the cache doesn't show yet go", func(t *testing.T) {
		g := exporters(t, mcsv1beta1.ClusterSetIP)
		_, cur := g.gathered(t)
		for _, s := range cur.Slices {
			if s.Labels[api.LabelSourceCluster] == "thief" {
				if err := g.here.of(s).Delete(s); err != nil {
					t.Fatal(err)
				}
			}
		}
		changed := exportedBy("thief", mcsv1beta1.ClusterSetIP, 2)
		changed.Spec.ExportedLabels = map[string]string{"team": "red"}
		g.hub.put(changed)
		g.reconcile(t)
		_, cur = g.gathered(t)
		if !slices.ContainsFunc(cur.ServiceImport.Status.Clusters, func(c mcsv1beta1.ClusterStatus) bool { return c.Cluster == "thief" }) {
			t.Errorf("a late cluster whose slices are on their way is gone: %v", cur.ServiceImport.Status.Clusters)
		}
	})
	t.Run("nor does a withdrawal", func(t *testing.T) {
		g := exporters(t, mcsv1beta1.Headless)
		part := endpointsOf("thief", 2, 1, 0)
		g.withdraw(part)
		g.reconcile(t)
		if in, global := g.has(t, "thief"); in > 20 || global > 20 {
			t.Errorf("%d and %d endpoints remain, want 20 at most", in, global)
		}
		g.withdraw(exportedBy("thief", mcsv1beta1.Headless, 2))
		g.reconcile(t)
		g.want(t, "an export that is withdrawn", "thief", 0)
	})
	t.Run("nor does health", func(t *testing.T) {
		g := exporters(t, mcsv1beta1.ClusterSetIP)
		used := func() (n int) {
			_, cur := g.gathered(t)
			for _, s := range cur.Slices {
				for _, e := range s.Endpoints {
					if s.Labels[api.LabelSourceCluster] == "thief" && len(e.Hints.ForZones) > 0 && e.Hints.ForZones[0].Name != api.HintNone {
						n++
					}
				}
			}
			return n
		}
		if used() == 0 {
			t.Error("its endpoints aren't used")
		}
		member := memberAt("thief", "zone-0")
		member.Spec.Drain = true
		g.hub.put(member)
		g.reconcile(t)
		if n := used(); n > 0 {
			t.Errorf("%d endpoints are used though the cluster is drained", n)
		}
	})
	t.Run("the last state comes", func(t *testing.T) {
		g := exporters(t, mcsv1beta1.Headless)
		g.hub.put(endpointsOf("thief", 2, 0, 7))
		result := g.reconcile(t)
		g.hub.put(endpointsOf("thief", 2, 0, 5))
		if again := g.reconcile(t); again.RequeueAfter > result.RequeueAfter {
			t.Errorf("a further change makes it wait longer, %s instead of %s", again.RequeueAfter, result.RequeueAfter)
		}
		if all := g.late(); all != 1 {
			t.Errorf("%v services are late, want 1", all)
		}
		g.clock.Step(result.RequeueAfter)
		g.settled(t)
		g.want(t, "after its turn", "thief", 25)
		if all := g.late(); all != 0 {
			t.Errorf("%v services are late", all)
		}
	})
	t.Run("a new service of another name waits too", func(t *testing.T) {
		g := exporters(t, mcsv1beta1.Headless)
		for _, name := range []string{"honest", "thief"} {
			s := exportedBy(name, mcsv1beta1.Headless, 0)
			s.Name, s.Spec.ServiceName = "more.shop", "more"
			g.hub.put(s)
		}
		if _, err := g.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "shop", Name: "more"}}); err != nil {
			t.Fatal(err)
		}
		imp := &mcsv1beta1.ServiceImport{ObjectMeta: here("more")}
		if err := g.here.Get(t.Context(), client.ObjectKeyFromObject(imp), imp); err != nil || len(imp.Status.Clusters) != 1 || imp.Status.Clusters[0].Cluster != "honest" {
			t.Errorf("imported from %v, %v", imp.Status.Clusters, err)
		}
	})
	t.Run("and nothing is lost if the agent starts", func(t *testing.T) {
		g := exporters(t, mcsv1beta1.Headless)
		g.memories = newMemories()
		g.hub.put(endpointsOf("thief", 2, 0, 3))
		g.flip("honest", false)
		before, _ := g.has(t, "thief")
		if g.reconcile(t).RequeueAfter == 0 {
			t.Error("nothing waits")
		}
		g.want(t, "after a start", "thief", before)
		g.want(t, "after a start, another cluster's change", "honest", 19)
	})
}

// late returns the metric of what waits for the thief's budget.
func (g *rig) late() float64 {
	return testutil.ToFloat64(lateGauge.WithLabelValues("thief"))
}

// withdraw withdraws an export as its exporter does, or deletes a record of endpoints.
func (g *rig) withdraw(o client.Object) {
	if svc, is := o.(*clustersetv1alpha1.ExportedService); is {
		g.hub.put(withdrawn(svc))
		return
	}
	if s, is := g.hub.get(exportedBy(clusterOf(o), mcsv1beta1.ClusterSetIP, 0)).(*clustersetv1alpha1.ExportedService); is {
		s = s.DeepCopy()
		s.Spec.Endpoints = slices.DeleteFunc(s.Spec.Endpoints, func(suffix string) bool { return "web.shop."+suffix == o.GetName() })
		g.hub.put(s)
	}
	_ = g.hub.Delete(context.Background(), o) // or it is gone
}

func clusterOf(o client.Object) string {
	cluster, _ := api.ClusterOfNamespace(o.GetNamespace())
	return cluster
}

// withdrawn returns an ExportedService that says so.
func withdrawn(s *clustersetv1alpha1.ExportedService) *clustersetv1alpha1.ExportedService {
	s = s.DeepCopy()
	s.Spec = clustersetv1alpha1.ExportedServiceSpec{
		ServiceNamespace: s.Spec.ServiceNamespace, ServiceName: s.Spec.ServiceName, Type: s.Spec.Type, ExportedAt: s.Spec.ExportedAt,
		Revision: s.Spec.Revision + 1, Withdrawn: true,
	}
	return s
}

// settled reconciles as the clock goes on, until nothing is left to do.
func (g *rig) settled(t *testing.T) {
	t.Helper()
	for range 1000 {
		again := g.reconcile(t).RequeueAfter
		if again == 0 {
			return
		}
		g.clock.Step(again)
	}
	t.Error("it waits for ever")
}

// A thief flips one endpoint twice a second. Whose endpoints are in the written objects doesn't matter: it pays for them all.
func TestAThiefsBytesAreBounded(t *testing.T) {
	for _, c := range []struct {
		name                string
		clusters, endpoints int
	}{{"many endpoints of its own", 2, 500}, {"a service of many clusters", 50, 20}} {
		t.Run(c.name, func(t *testing.T) {
			bytes := func(options Options) int64 {
				g := large(t, mcsv1beta1.Headless, c.clusters, c.endpoints)
				g.options.WriteRate, g.options.WriteBurst = options.WriteRate, options.WriteBurst
				g.budget = newBudget(g.clock, options, g.report.late)
				g.here.bytes = 0
				for i := range 600 { // five minutes
					g.flip("cluster-000", i%2 == 1)
					if _, err := g.Reconcile(t.Context(), reconcile.Request{NamespacedName: web}); err != nil {
						t.Fatal(err)
					}
					g.clock.Step(500 * time.Millisecond)
				}
				return g.here.bytes
			}
			without := bytes(Options{WriteRate: 1 << 40, WriteBurst: 1 << 40})
			with := bytes(Options{WriteRate: 1 << 10, WriteBurst: 256 << 10})
			most := int64(2 * (256<<10 + 300<<10))
			t.Logf("five minutes write %d kB, and %d kB with a budget of %d kB", without/1000, with/1000, most/1000)
			if with > most+most/5 || without < 5*with {
				t.Errorf("want at most %d kB", most/1000)
			}
		})
	}
}

// A thousand headless services of ten endpoints each, of which all endpoints are replaced within five minutes, in twenty steps, are within what
// one cluster may change.
func TestARolloutStaysWithinTheBudget(t *testing.T) {
	g := large(t, mcsv1beta1.Headless, 2, 10)
	clock := clocktesting.NewFakeClock(g.clock.Now())
	options, _ := Options{Cluster: "here"}.withDefaults()
	budget := newBudget(clock, options, g.report.late)
	slice := 0
	_, cur := g.gathered(t)
	for _, s := range cur.Slices {
		slice = max(slice, sizeOf(s))
	}
	global := sizeOf(cur.Global)
	t.Logf("a change writes %d and %d bytes", slice, global)
	const managedFields = 1000
	for range 20 {
		for i := range 1000 {
			service := types.NamespacedName{Namespace: "shop", Name: fmt.Sprint("web-", i)}
			if budget.admit(t.Context(), "a", service, 0) > 0 {
				t.Fatal("a change waits")
			}
			budget.settle("a", float64(slice+global+2*managedFields))
		}
		clock.Step(15 * time.Second)
	}
}

// A member's credentials change records as fast as they can. Another member's etcd grows by what the budget allows, and gets a third
// member's changes at once, also those of a service that the thief shares. Rule C39 of docs/spec/control-plane.md.
func TestAThiefsPatchesDoNotFillAnotherEtcd(t *testing.T) {
	const services, patches, burst = 10, 300, 256 << 10
	w := newWorld(t)
	w.member.InstallMCS(t)
	w.here(namespace("shop"), namespace("fill"))
	w.onHub(namespaceOf("thief"), memberOf("thief"))
	var all []*clustersetv1alpha1.ExportedEndpoints
	for i := range services {
		name := fmt.Sprint("web-", i)
		s := exportedBy("thief", mcsv1beta1.Headless, 0)
		s.Name, s.Spec.ServiceName, s.Spec.ServiceNamespace = name+".fill", name, "fill"
		if i == 0 { // which shanghai exports too
			s.Name, s.Spec.ServiceName, s.Spec.ServiceNamespace = "web.shop", "web", "shop"
		}
		w.create(s)
		for n := range 2 {
			e := endpointsOf("thief", i, n, 100)
			e.Name, e.Spec.ServiceName, e.Spec.ServiceNamespace = fmt.Sprintf("%s.x-%d", s.Name, n), s.Spec.ServiceName, s.Spec.ServiceNamespace
			w.create(e)
			all = append(all, e)
		}
	}
	honest := endpointsOf("shanghai", 150, 0, 1)
	w.create(exportedBy("shanghai", mcsv1beta1.Headless, 1))
	w.create(honest)

	patched := 0
	patch := func(n int) {
		t.Helper()
		for range n {
			patched++
			e, ready := all[patched%len(all)], patched/len(all)%2 == 1
			e.Spec.Endpoints[0].Conditions.Ready = &ready
			if err := w.hubClient.Update(t.Context(), e); err != nil {
				t.Fatal(err)
			}
		}
	}
	has := func(ns, name string, endpoints int) {
		t.Helper()
		kube.Eventually(t, func() error {
			if g := w.objects(ns, name).global; g == nil || len(g.Spec.Endpoints) != endpoints {
				return fmt.Errorf("its GlobalService is %+v", g)
			}
			return nil
		})
	}
	measure := func(options Options) (sent, stored int64) {
		t.Helper()
		run := w.start(options)
		defer run.stop()
		has("shop", "web", 201)
		for i := 1; i < services; i++ {
			has("fill", fmt.Sprint("web-", i), 200)
		}
		w.quiet(run, services)
		sent, stored = run.local.bytesSent(), w.etcdSize()
		patch(patches / 2)
		honest.Spec.Endpoints[0].Addresses[0] = fmt.Sprintf("10.150.0.%d", 10+patched%200)
		if err := w.hubClient.Update(t.Context(), honest); err != nil {
			t.Fatal(err)
		}
		patch(patches / 2)
		kube.Eventually(t, func() error {
			for _, s := range w.objects("shop", "web").slices {
				if s.Labels[api.LabelSourceCluster] == "shanghai" && s.Endpoints[0].Addresses[0] == honest.Spec.Endpoints[0].Addresses[0] {
					return nil
				}
			}
			return fmt.Errorf("shanghai's change isn't imported")
		})
		w.quiet(run, services)
		return run.local.bytesSent() - sent, w.etcdSize() - stored
	}
	sent, stored := measure(Options{WriteRate: 1 << 40, WriteBurst: 1 << 40})
	sentWith, storedWith := measure(Options{WriteRate: 1, WriteBurst: burst})
	t.Logf("%d patches: %d kB are sent and etcd grows by %d kB; with a budget of twice %d kB %d and %d kB", patches, sent/1000, stored/1000, burst/1000, sentWith/1000, storedWith/1000)
	if most := int64(4 * burst); sentWith > most || storedWith > most || sent < most || stored < most {
		t.Errorf("want no more than %d kB with a budget, and more without", most/1000)
	}
	kube.Eventually(t, func() error {
		var events eventsv1.EventList
		if err := w.client.List(t.Context(), &events); err != nil {
			return err
		}
		if !slices.ContainsFunc(events.Items, func(e eventsv1.Event) bool { return e.Reason == reasonLate && e.Regarding.Name == "thief" }) {
			return fmt.Errorf("no Event names the thief")
		}
		return nil
	})
}

// create creates an object on the hub.
func (w *world) create(o client.Object) {
	w.t.Helper()
	if err := w.hubClient.Create(w.t.Context(), o); err != nil {
		w.t.Fatal(err)
	}
}

// etcdSize returns the size of the member's etcd.
func (w *world) etcdSize() int64 {
	w.t.Helper()
	answer, err := w.member.CallEtcd(w.t.Context(), "/v3/maintenance/status", struct{}{})
	if err != nil {
		w.t.Fatal(err)
	}
	var status struct {
		Size int64 `json:"dbSize,string"`
	}
	if err := json.Unmarshal(answer, &status); err != nil {
		w.t.Fatal(err)
	}
	return status.Size
}
