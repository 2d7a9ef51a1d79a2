package exporter

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/connect"
	"github.com/clusterset/clusterset/internal/nodes"
)

// While a ServiceExport is gone or being deleted and its service stays, so do the external addresses, wherever they come from: what only the
// ServiceExport stated is remembered, and after a restart the hub's addresses stay. Rules C7, C8 of docs/spec/control-plane.md and D94 of
// docs/spec/data-path.md.
func TestExternalAddressesOfAServiceThatStays(t *testing.T) {
	stated := map[string]string{api.AnnotationExternalAddresses: "203.0.113.9"}
	gone := func(src *Source) { src.Export = nil }
	terminating := func(src *Source) { now := metav1.Now(); src.Export.DeletionTimestamp = &now }
	for _, c := range []struct {
		name      string
		stated    map[string]string
		restarted bool
		change    func(*Source)
		want      string
	}{
		{"stated by the ServiceExport", stated, false, gone, "203.0.113.9:80 (2)"},
		{"it has a finalizer", stated, false, terminating, "203.0.113.9:80 (2)"},
		{"and the agent restarted", stated, true, terminating, "203.0.113.9:80 (2)"},
		{"it is gone when the agent starts", stated, true, gone, "203.0.113.9:80 (2)"},
		{"those of nodes follow them", nil, false, gone, "192.0.2.2:31234 (2)"},
		{"also when the agent starts", nil, true, terminating, "192.0.2.2:31234 (2)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src := exposed()
				src.Export.Annotations = c.stated
				slice := src.Slices[0].DeepCopy()
				slice.Namespace = "shop"
				r := &reconciler{
					cluster: src.Cluster, hub: fake.NewClientBuilder().WithScheme(connect.NewScheme()).Build(),
					local: fake.NewClientBuilder().WithObjects(slice).WithIndex(slice, indexSlices, func(client.Object) []string { return []string{"web"} }).Build(),
					nodes: &nodeUsers{nodes: nodes.New(), of: sets.New[types.NamespacedName]()}, names: newNames(nil, nil),
					withdrawals: newWithdrawalGuard(DefaultHoldWithdrawals, DefaultReplaceFor),
				}
				r.nodes.nodes.Set(t.Context(), nodeAt("a", "z1", true, ip("192.0.2.1")))
				known := &serviceState{}
				reconcile := func(have Records) Desired {
					t.Helper()
					now := src
					now.Slices, now.External = []discoveryv1.EndpointSlice{*slice}, External{}
					defer r.gatherExternal(t.Context(), &now, have)()
					want, _, err := r.staying(t.Context(), now, desired(now), have.Service, known, false)
					if err != nil {
						t.Fatal(err)
					}
					return want
				}
				before := reconcile(Records{})
				have := Records{before.Service, before.Endpoints}
				reconcile(have)
				if c.restarted {
					known = &serviceState{}
				}
				c.change(&src)
				r.nodes.nodes.Set(t.Context(), nodeAt("b", "z1", true, ip("192.0.2.2")), nodes.Node{Name: "a"})
				if got := where(reconcile(have)); got != c.want {
					t.Errorf("%s, want %s", got, c.want)
				}
			})
		})
	}
}

// What was un-exported one by one, and is back because the hub was restored from a backup, isn't a mass of withdrawals: it goes at once. Rule C7 of
// docs/spec/control-plane.md.
func TestARestoredHubHoldsNothingThatWasUnexported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const all, unexported = 20, 15
		back := map[types.NamespacedName]bool{}
		r := &reconciler{
			cluster: "beijing", withdrawals: newWithdrawalGuard(DefaultHoldWithdrawals, DefaultReplaceFor),
			local: fake.NewClientBuilder().WithIndex(&discoveryv1.EndpointSlice{}, indexSlices, func(client.Object) []string { return nil }).Build(),
		}
		r.withdrawals.served = func(context.Context, types.NamespacedName) (error, error) { return nil, nil }
		r.withdrawals.count = func(context.Context) ([]types.NamespacedName, int, error) {
			return slices.Collect(maps.Keys(back)), all, nil
		}
		known := map[types.NamespacedName]*serviceState{}
		backup := map[types.NamespacedName]*clustersetv1alpha1.ExportedService{}
		reconcile := func(src Source, onHub *clustersetv1alpha1.ExportedService) (Desired, stopped) {
			t.Helper()
			if known[src.Key] == nil {
				known[src.Key] = &serviceState{}
			}
			want, stop, err := r.staying(t.Context(), src, desired(src), onHub, known[src.Key], false)
			if err != nil {
				t.Fatal(err)
			}
			return want, stop
		}
		gone := func(i int) Source {
			src := exported()
			src.Key.Name = fmt.Sprintf("s%d", i)
			src.Export = nil
			return src
		}
		for i := range unexported {
			src := gone(i)
			src.Export = export()
			want, _ := reconcile(src, nil)
			src.Export, backup[src.Key], back[src.Key] = nil, want.Service, true
			_, stop := reconcile(src, want.Service)
			elapse(stop.retry)
			if want, stop = reconcile(src, want.Service); want.Service != nil || stop != (stopped{}) {
				t.Fatalf("%s isn't withdrawn: %+v", src.Key, stop)
			}
			delete(back, src.Key)
			reconcile(src, nil)
			elapse(time.Hour)
		}
		for key := range backup {
			back[key] = true
		}
		for i := range unexported {
			src := gone(i)
			if want, stop := reconcile(src, backup[src.Key]); want.Service != nil || stop != (stopped{}) {
				t.Errorf("%s isn't withdrawn again: %+v", src.Key, stop)
			}
		}

		// What is exported again begins anew.
		src := gone(0)
		src.Export = export()
		reconcile(src, nil)
		src.Export = nil
		if _, stop := reconcile(src, backup[src.Key]); stop.retry == 0 {
			t.Error("it is withdrawn without a pause, although it was exported again")
		}
	})
}
