package importer

import (
	"strings"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
)

// Somebody else changes a slice as soon as it is written. It is restored at once, then once a second, and what the hub changes isn't delayed. Rule
// C79 of docs/spec/control-plane.md.
func TestWhatOthersChangeIsRestoredOnceASecond(t *testing.T) {
	t.Run("with a GlobalService", func(t *testing.T) { restoredOnceASecond(t, newRig(Options{DataPath: desired.DataPathPods})) })
	t.Run("without", func(t *testing.T) {
		restoredOnceASecond(t, newRig(Options{DataPath: desired.DataPathPods, SkipGlobalServices: true}))
	})
	t.Run("with somebody else's", func(t *testing.T) {
		g := newRig(Options{DataPath: desired.DataPathPods})
		g.here.put(&fabedgev1alpha1.GlobalService{ObjectMeta: metav1.ObjectMeta{Namespace: web.Namespace, Name: web.Name}})
		restoredOnceASecond(t, g)
	})
}

func restoredOnceASecond(t *testing.T, g *rig) {
	g.hub.put(memberAt("shanghai", "zone-1"))
	g.hub.put(exportedBy("shanghai", mcsv1beta1.ClusterSetIP, 1))
	g.hub.put(endpointsOf("shanghai", 1, 0, 1))
	g.reconcile(t)
	g.here.writes = nil

	slice := func() *discoveryv1.EndpointSlice {
		t.Helper()
		all := g.here.of(&discoveryv1.EndpointSlice{}).List()
		if len(all) != 1 {
			t.Fatalf("%d slices", len(all))
		}
		return all[0].(*discoveryv1.EndpointSlice).DeepCopy()
	}
	tamper := func() {
		t.Helper()
		if s := slice(); s.Endpoints[0].Addresses[0] != "192.0.2.1" {
			s.Endpoints[0].Addresses = []string{"192.0.2.1"}
			g.here.put(s)
		}
	}
	var again time.Duration
	pass := func() {
		t.Helper()
		result, err := g.Reconcile(t.Context(), reconcile.Request{NamespacedName: web})
		if err != nil {
			t.Fatal(err)
		}
		again = result.RequeueAfter
	}
	is := func(what, address string) {
		t.Helper()
		if got := slice().Endpoints[0].Addresses[0]; got != address {
			t.Errorf("%s: the slice has %s, want %s", what, got, address)
		}
	}
	const tenths = 100
	for range tenths {
		tamper()
		pass()
		g.clock.Step(time.Second / 10)
	}
	if n := len(g.here.writes); n != tenths/10 {
		t.Errorf("%d writes in %d s:\n%s", n, tenths/10, strings.Join(g.here.writes, "\n"))
	}
	tamper()
	pass()
	g.clock.Step(time.Second / 10)
	tamper()
	pass()
	is("a tenth of a second later", "192.0.2.1")
	if again <= 0 || again > restoreEvery {
		t.Fatalf("it is restored after %s", again)
	}
	changed := endpointsOf("shanghai", 1, 0, 1)
	changed.Spec.Endpoints[0].Addresses = []string{"10.1.0.7"}
	g.hub.put(changed)
	pass()
	is("the hub has another address", "10.1.0.7")
	tamper()
	pass()
	g.clock.Step(again)
	pass()
	is("when it was due", "10.1.0.7")
}
