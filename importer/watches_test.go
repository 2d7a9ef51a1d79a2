package importer

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/importer/desired"
)

// What is kept although the hub has lost its records follows this cluster's endpoints, what it can reach, and its nodes. Rules D9 and D47 of
// docs/spec/data-path.md.
func TestWhatIsKeptIsFollowed(t *testing.T) {
	g := newRig(Options{DataPath: desired.DataPathPods})
	own := &discoveryv1.EndpointSlice{ObjectMeta: here("web-1")}
	own.Labels = map[string]string{discoveryv1.LabelServiceName: "web"}
	follow := func(what string, by func(client.Object) []types.NamespacedName, about client.Object, want int) {
		t.Helper()
		keys := map[types.NamespacedName]bool{}
		for _, key := range by(about) {
			keys[key] = true
		}
		if len(keys) != want {
			t.Errorf("%s: enqueued are %v, want %d services", what, keys, want)
		}
	}
	follow("endpoints of a service that this cluster never exported", g.exportedHere, own, 0)
	records := []client.Object{
		exportedBy("here", mcsv1beta1.ClusterSetIP, 1), exportedBy("shanghai", mcsv1beta1.ClusterSetIP, 2), endpointsOf("shanghai", 2, 0, 1),
	}
	for _, o := range append(records, memberAt("shanghai", "zone-1")) {
		g.hub.put(o)
	}
	g.ownEndpoint("10.9.0.1")
	g.reconcile(t)
	for _, o := range records {
		if err := g.hub.Delete(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	g.reconcile(t)
	follow("this cluster's endpoints", g.exportedHere, own, 1)
	follow("a verdict about the cluster", g.affectedBy, memberAt("shanghai", "zone-1"), 1)
	follow("a verdict about another", g.affectedBy, memberAt("beijing", "zone-1"), 0)
	follow("this cluster's location", g.affectedBy, memberAt("here", "zone-1"), 1)
	follow("nodes", func(client.Object) []types.NamespacedName { return g.all() }, nil, 1)
}

// The event of a write may come before its answer. The end of the reconcile tells whose it was.
func TestEventsBeforeTheAnswer(t *testing.T) {
	for _, theirs := range []bool{false, true} {
		m := newMemories()
		spent := m.begin(web)
		m.get(web).global.version = "1" // something is imported
		seen := &corev1.Service{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "7"}}
		if !m.wrote(web, seen.ResourceVersion) {
			t.Error("the event isn't kept until the end")
		}
		if !theirs {
			spent.wrote("update", seen)
		}
		if again := m.end(web); again != theirs {
			t.Errorf("somebody else's: %t, reconciled again: %t", theirs, again)
		}
		if m.wrote(web, seen.ResourceVersion) == theirs {
			t.Errorf("somebody else's: %t, and not so after the end", theirs)
		}
	}
}
