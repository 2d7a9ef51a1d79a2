package importer

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
)

// A thief creates and deletes as many services as a cluster may have, again and again for an hour. What it deleted stays, because absence says nothing,
// but no member has more of its services than --max-services allows, and the one that is being exported. Rules C42 and C47 of docs/spec/control-plane.md.
func TestChurnLeavesNoMoreThanTheMost(t *testing.T) {
	const most, every = 50, 5 * time.Minute
	g := newRig(Options{MaxServices: most})
	g.hub.put(memberAt("shanghai", "zone-1"))
	g.here.put(memberAt("shanghai", "zone-1"))
	due := map[types.NamespacedName]time.Time{}
	look := func(key types.NamespacedName) {
		for range 10 {
			g.here.writes = nil
			result, err := g.Reconcile(t.Context(), reconcile.Request{NamespacedName: key})
			if err != nil {
				t.Fatal(err)
			}
			if due[key] = g.clock.Now().Add(result.RequeueAfter); result.RequeueAfter == 0 {
				delete(due, key)
			}
			if result.RequeueAfter > time.Second || len(g.here.writes) == 0 {
				return
			}
			g.clock.Step(result.RequeueAfter)
		}
	}
	imports := func() (n int) {
		for _, o := range g.here.all() {
			if _, is := o.(*mcsv1beta1.ServiceImport); is {
				n++
			}
		}
		return n
	}
	peak := 0
	for round := range 12 {
		for i := range most {
			svc := exportedBy("shanghai", mcsv1beta1.ClusterSetIP, i)
			svc.Spec.ServiceName = fmt.Sprintf("s-%d-%d", round, i)
			svc.Name, svc.Spec.Endpoints = svc.Spec.ServiceName+".shop", nil
			key := types.NamespacedName{Namespace: "shop", Name: svc.Spec.ServiceName}
			g.hub.put(svc)
			look(key)
			peak = max(peak, imports())
			if err := g.hub.Delete(t.Context(), svc); err != nil {
				t.Fatal(err)
			}
			look(key)
		}
		g.clock.Step(every)
		for key, at := range due {
			if !at.After(g.clock.Now()) {
				look(key)
			}
		}
	}
	if n := imports(); n == 0 || n > most || peak > most+1 {
		t.Errorf("after an hour %d services are imported, at most %d at a time; want at most %d", n, peak, most)
	}
}
