package importer

import (
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

// What another cluster changes waits for its account; what goes, phases and drains don't, nor what this cluster changes. Rule C39 of
// docs/spec/control-plane.md, and of networks D82 of docs/spec/data-path.md.
func TestWhatWaitsForAnAccount(t *testing.T) {
	g := newRig(Options{})
	q := priorityqueue.New[reconcile.Request](t.Name())
	defer q.ShutDown()
	g.hub.put(memberAt("thief", "zone-1"))
	g.follow(q)
	g.accounts.account("thief").level = -1 // overdrawn
	record := exportedBy("thief", mcsv1beta1.ClusterSetIP, 1)
	member := func(change func(*clustersetv1alpha1.MemberCluster)) func() {
		return func() {
			m := g.known.Member("thief").DeepCopy()
			change(m)
			g.hub.put(m)
			g.known.member(m.Name)
		}
	}
	changed := func() { g.known.changed("thief", web) }
	for _, c := range []struct {
		what  string
		do    func()
		waits bool
	}{
		{"it exports", func() { g.hub.put(record); changed() }, true},
		{"it changes", func() { g.hub.put(record); changed() }, true},
		{"its zones", member(func(m *clustersetv1alpha1.MemberCluster) { m.Status.Zones = []string{"z"} }), true},
		{"its communities", member(func(m *clustersetv1alpha1.MemberCluster) { m.Spec.Communities = []string{"x"} }), true},
		{"its phase", member(func(m *clustersetv1alpha1.MemberCluster) { m.Status.Phase = clustersetv1alpha1.MemberSuspect }), false},
		{"its drain", member(func(m *clustersetv1alpha1.MemberCluster) { m.Spec.Drain = true }), false},
		{"its networks, within which no external address of another cluster may be", member(func(m *clustersetv1alpha1.MemberCluster) { m.Spec.CIDRs = []string{"10.5.0.0/16"} }), false},
		{"it leaves", member(func(m *clustersetv1alpha1.MemberCluster) { m.SetLeft(time.Unix(1e9, 0)) }), false},
		{"it withdraws", func() { g.hub.put(withdrawn(record)); changed() }, false},
		{"it is gone", func() { _ = g.hub.Delete(t.Context(), record); changed() }, false},
		{"this cluster exports", func() {
			g.hub.put(exportedBy("here", mcsv1beta1.ClusterSetIP, 1))
			g.known.changed("here", web)
		}, false},
	} {
		c.do()
		var enqueued []types.NamespacedName
		for q.Len() > 0 {
			r, _ := q.Get()
			q.Done(r)
			enqueued = append(enqueued, r.NamespacedName)
		}
		if want := !c.waits; slices.Contains(enqueued, web) != want {
			t.Errorf("%s: enqueued are %v", c.what, enqueued)
		}
	}
}
