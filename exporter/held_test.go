package exporter

import (
	"testing"
	"testing/synctest"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/clusterset/clusterset/api"
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
				hub := fake.NewClientBuilder().WithScheme(connect.NewScheme()).Build()
				r := &reconciler{
					cluster: src.Cluster, hub: hub, onHub: newFakeHub(hub),
					local: fake.NewClientBuilder().WithObjects(slice).WithIndex(slice, indexSlices, func(client.Object) []string { return []string{"web"} }).Build(),
					nodes: nodes.New(), names: newNames(nil, nil),
					withdrawals: newWithdrawalGuard(DefaultHoldWithdrawals, DefaultReplaceFor),
				}
				r.nodes.Set(t.Context(), nodeAt("a", "z1", true, ip("192.0.2.1")))
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
				r.nodes.Set(t.Context(), nodeAt("b", "z1", true, ip("192.0.2.2")), nodes.Node{Name: "a"})
				if got := where(reconcile(have)); got != c.want {
					t.Errorf("%s, want %s", got, c.want)
				}
			})
		})
	}
}
