package importer

import (
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/importer/desired"
)

// This cluster's endpoints are followed although the hub has lost its record. Rule D9 of docs/spec/data-path.md.
func TestOwnEndpointsAreFollowedWhileTheHubHasLostThem(t *testing.T) {
	g := newRig(Options{DataPath: desired.DataPathPods})
	changed := func() int {
		q := priorityqueue.New[reconcile.Request](t.Name())
		defer q.ShutDown()
		own := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}}}
		enqueue(g.exportedHere).Create(t.Context(), event.CreateEvent{Object: own}, q)
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

// What is kept although the hub has lost its records follows what this cluster can reach, and its nodes. Rule D47 of docs/spec/data-path.md.
func TestKeptServicesFollowVerdicts(t *testing.T) {
	g := newRig(Options{DataPath: desired.DataPathPods})
	shanghai, exported, endpoints := memberAt("shanghai", "zone-1"), exportedBy("shanghai", mcsv1beta1.ClusterSetIP, 1), endpointsOf("shanghai", 1, 0, 1)
	for _, o := range []client.Object{shanghai, exported, endpoints} {
		g.hub.put(o)
	}
	g.reconcile(t)
	for _, o := range []client.Object{exported, endpoints} {
		if err := g.hub.Delete(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	g.reconcile(t)
	if n := len(g.here.of(&discoveryv1.EndpointSlice{}).List()); n != 1 {
		t.Fatalf("%d slices are kept", n)
	}
	for _, c := range []struct {
		name    string
		handler handler.EventHandler
		about   string
		want    int
	}{
		{"a verdict about the cluster", enqueue(g.affectedBy), "shanghai", 1},
		{"a verdict about another", enqueue(g.affectedBy), "beijing", 0},
		{"this cluster's location", enqueue(g.affectedBy), "here", 1},
		{"nodes", enqueue(func(client.Object) []types.NamespacedName { return g.all() }), "", 1},
	} {
		q := priorityqueue.New[reconcile.Request](t.Name())
		c.handler.Generic(t.Context(), event.GenericEvent{Object: memberAt(c.about, "zone-1")}, q)
		if n := q.Len(); n != c.want {
			t.Errorf("%s: %d services are enqueued, want %d", c.name, n, c.want)
		}
		q.ShutDown()
	}
}
