package importer

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/importer/retention"
)

// Exporters name the namespaces that are missing, ever new ones if they like. Rule C59 of docs/spec/control-plane.md.
func TestMissingNamespacesTakeBoundedMemory(t *testing.T) {
	r := newReporter(events.NewFakeRecorder(1))
	for n := range 10 * maxNamespaces {
		r.namespaceMissing(t.Context(), fmt.Sprint("shop-", n))
	}
	if n := len(r.namespaces); n > maxNamespaces {
		t.Errorf("%d are remembered, want at most %d", n, maxNamespaces)
	}
}

// A cluster that the hub lost is no longer waited for once a person deletes its copy here, as the Event advises.
func TestALostClusterThatIsGivenUpIsNotAwaited(t *testing.T) {
	member := func(cluster string, uid types.UID) *clustersetv1alpha1.MemberCluster {
		return &clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: cluster, UID: uid}}
	}
	left := member("shanghai", "3")
	left.DeletionTimestamp, left.Finalizers = &metav1.Time{Time: time.Now()}, []string{api.MemberFinalizer}
	for what, onHub := range map[string][]client.Object{"the hub doesn't know it": nil, "it has left": {left}} {
		m := &mirror{
			hub:    fake.NewClientBuilder().WithScheme(testScheme).WithObjects(append(onHub, member("beijing", "1"))...).Build(),
			keeper: &retention.Keeper{Trust: &retention.HubTrust{Cluster: "beijing"}}, report: newReporter(events.NewFakeRecorder(10)),
		}
		here := fake.NewClientBuilder().WithScheme(testScheme).Build()
		m.local = &local{cache: here, live: here, client: here, echoes: newEchoes()}
		m.report.awaited("shanghai", true)
		if _, err := m.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "shanghai"}}); err != nil {
			t.Error(err)
		}
		if m.report.absent["shanghai"] {
			t.Errorf("%s: it is still waited for", what)
			m.report.awaited("shanghai", false)
		}
	}
}

// Namespaces that are deleted again don't count, also if the cache never had them when the next one was created. Rule C57 of
// docs/spec/control-plane.md.
func TestCreatedNamespacesCountAsLongAsTheyAreThere(t *testing.T) {
	here := fake.NewClientBuilder().WithScheme(testScheme).WithObjects(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: "shop", Labels: map[string]string{api.LabelManagedBy: api.ManagedByImporter, api.LabelSourceCluster: "shanghai"},
	}}).Build()
	m, now := newMade(), time.Now()
	m.unseen["shop"], m.unseen["new"] = unseen{"shanghai", now}, unseen{"shanghai", now}
	for after, want := range map[time.Duration]int{time.Second: 2, unseenFor + time.Second: 1} {
		count, err := m.count(t.Context(), here, now.Add(after))
		if err != nil || count["shanghai"] != want {
			t.Errorf("after %s %v count, %v; want %d", after, count, err, want)
		}
		m.unseen["new"] = unseen{"shanghai", now}
	}
}

// This cluster's endpoints are followed although the hub has lost its record. Rule D9 of docs/spec/data-path.md.
func TestOwnEndpointsAreFollowedWhileTheHubHasLostThem(t *testing.T) {
	g := newRig(Options{DataPath: desired.DataPathPods})
	changed := func() int {
		q := priorityqueue.New[reconcile.Request](t.Name())
		defer q.ShutDown()
		own := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}}}
		exportedHere(g.reconciler, "here", backedBy).Create(t.Context(), event.CreateEvent{Object: own}, q)
		return q.Len()
	}
	if n := changed(); n != 0 {
		t.Errorf("%d services are enqueued for one that this cluster never exported", n)
	}
	g.hub.put(exportedBy("here", mcsv1beta1.ClusterSetIP, 1))
	g.ownEndpoint("10.9.0.1")
	g.reconcile(t)
	if err := g.hub.Delete(t.Context(), exportedBy("here", mcsv1beta1.ClusterSetIP, 1)); err != nil {
		t.Fatal(err)
	}
	if n := changed(); n != 1 {
		t.Errorf("%d services are enqueued, want the one that is imported", n)
	}
}

// Which external addresses may be used is looked at again when a cluster with networks comes or goes. Rule D82 of docs/spec/data-path.md.
func TestNetworksThatComeOrGo(t *testing.T) {
	member := func(left bool, cidrs ...string) *clustersetv1alpha1.MemberCluster {
		m := &clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "shanghai"}, Spec: clustersetv1alpha1.MemberClusterSpec{CIDRs: cidrs}}
		if left {
			m.DeletionTimestamp = &metav1.Time{Time: time.Now()}
			m.Finalizers = []string{api.MemberFinalizer}
		}
		return m
	}
	with, without, p := member(false, "10.5.0.0/16"), member(false), networksChanged()
	for what, is := range map[string][2]bool{
		"it joins":                    {p.Create(event.CreateEvent{Object: with}), true},
		"it was there at the start":   {p.Create(event.CreateEvent{Object: with, IsInInitialList: true}), false},
		"one without networks joins":  {p.Create(event.CreateEvent{Object: without}), false},
		"it is gone":                  {p.Delete(event.DeleteEvent{Object: with}), true},
		"one without networks goes":   {p.Delete(event.DeleteEvent{Object: without}), false},
		"it leaves":                   {p.Update(event.UpdateEvent{ObjectOld: with, ObjectNew: member(true, "10.5.0.0/16")}), true},
		"one without networks leaves": {p.Update(event.UpdateEvent{ObjectOld: without, ObjectNew: member(true)}), false},
		"it gets some":                {p.Update(event.UpdateEvent{ObjectOld: without, ObjectNew: with}), true},
		"something else":              {p.Update(event.UpdateEvent{ObjectOld: with, ObjectNew: with.DeepCopy()}), false},
	} {
		if is[0] != is[1] {
			t.Errorf("%s: passed is %t", what, is[0])
		}
	}
}

// What is in the way of a service, or too large of it, no longer counts when nothing of it is written.
func TestWhatIsNotWrittenIsNotReported(t *testing.T) {
	g := newRig(Options{DataPath: desired.DataPathPods})
	foreign, truncated := metric(t, "clusterset_importer_foreign_objects", "kind", "Service"), metric(t, "clusterset_importer_truncated_endpoints", "", "")
	g.report.outcome(web, stateImported)
	g.report.foreign(t.Context(), web, []*foreignError{{"Service", &corev1.Service{}}})
	g.report.truncated(web, 7)
	g.forget(web)
	if n := metric(t, "clusterset_importer_foreign_objects", "kind", "Service"); n != foreign {
		t.Errorf("%v foreign objects", n-foreign)
	}
	if n := metric(t, "clusterset_importer_truncated_endpoints", "", ""); n != truncated {
		t.Errorf("%v truncated endpoints", n-truncated)
	}
	g.report.outcome(web, "")
}

// Clusters that join and leave under ever new names take no memory.
func TestClustersThatWereDrainedAreForgotten(t *testing.T) {
	var f following
	here := fake.NewClientBuilder().WithScheme(testScheme).Build()
	f.begin(here, here)
	f.note(t.Context(), change{is: &clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "shanghai"}}}, nil)
	if len(f.drained) != 1 {
		t.Fatalf("%v is known", f.drained)
	}
	f.digest(t.Context())
	if len(f.drained) != 0 {
		t.Errorf("%v is known of clusters that aren't there", f.drained)
	}
}
