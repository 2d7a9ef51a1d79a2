package importer

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/test/kube"
	"github.com/clusterset/clusterset/test/records"
)

// askingWeb is a Service of the member that asks for endpoints of other clusters. The member doesn't export it.
const askingWeb = `
apiVersion: v1
kind: Service
metadata: {namespace: shop, name: web, annotations: {clusterset.dev/extend: "true"}}
spec: {selector: {app: web}, ports: [{name: http, port: 80}]}
`

// extending waits until the Service's slices lead to exactly these addresses.
func (w *world) extending(addresses ...string) {
	w.t.Helper()
	kube.Eventually(w.t, func() error {
		var all discoveryv1.EndpointSliceList
		if err := w.client.List(w.t.Context(), &all, client.InNamespace("shop"), client.MatchingLabels{api.LabelKubernetesServiceName: "web", api.LabelExtends: "web"}); err != nil {
			return err
		}
		var got []string
		for _, s := range all.Items {
			if len(s.OwnerReferences) != 1 || s.OwnerReferences[0].Kind != "Service" {
				return fmt.Errorf("%s belongs to %v", s.Name, s.OwnerReferences)
			}
			for _, e := range s.Endpoints {
				got = append(got, e.Addresses...)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, addresses) {
			return fmt.Errorf("the slices have %v, want %v", got, addresses)
		}
		return nil
	})
}

// patch changes the metadata of an object of the member.
func (w *world) patch(o client.Object, metadata string) {
	w.t.Helper()
	if err := w.client.Patch(w.t.Context(), o, client.RawPatch(types.MergePatchType, []byte(`{"metadata":`+metadata+`}`))); err != nil {
		w.t.Fatal(err)
	}
}

// Rules D60 to D62, D67 and D68 of docs/spec/data-path.md.
func TestExtendedServices(t *testing.T) {
	w := newWorld(t, kube.WithControllerManager()) // which collects garbage
	w.member.InstallMCS(t)
	shanghai := records.Exported("shanghai", "shop", "web", "10.2.0.1", "10.12.0.5")
	w.here(namespace("shop"), askingWeb)
	w.onHub(shanghai)
	run := w.start(Options{})
	w.imported("shop", "web", 1)

	event := func(text string) {
		t.Helper()
		kube.Eventually(t, func() error {
			var events corev1.EventList
			if err := w.client.List(t.Context(), &events, client.InNamespace("shop")); err != nil {
				return err
			}
			for _, e := range events.Items {
				if e.Reason == reasonNotExtended && e.InvolvedObject.Kind == "Service" && strings.Contains(e.Message, text) {
					return nil
				}
			}
			return fmt.Errorf("no Event %s with %q among %d", reasonNotExtended, text, len(events.Items))
		})
	}
	states := func(extended, refused float64) {
		t.Helper()
		kube.Eventually(t, func() error {
			is := func(s state) float64 { return metric(t, "clusterset_importer_extended_services", "state", string(s)) }
			if is(stateExtended) != extended || is(stateRefused) != refused {
				return fmt.Errorf("%v extended, %v refused", is(stateExtended), is(stateRefused))
			}
			return nil
		})
	}
	ns, web := &corev1.Namespace{}, &corev1.Service{}
	ns.Name, web.Namespace, web.Name = "shop", "shop", "web"

	event("kubectl label namespace shop " + api.KeyExtend + "=" + api.ExtendAllowed)
	states(0, 1)
	w.extending()
	w.patch(ns, `{"labels":{"clusterset.dev/extend":"allowed"}}`)
	w.extending("10.12.0.5")
	states(1, 0)

	// The agent is away while a slice is deleted and the annotation changes.
	run.stop()
	extendedGauge.Reset() // as in a new process
	w.patch(web, `{"annotations":{"clusterset.dev/extend":"false"}}`)
	run = w.start(Options{})
	w.extending()
	states(0, 0)
	w.patch(web, `{"annotations":{"clusterset.dev/extend":"true"}}`)
	w.extending("10.12.0.5")
	if err := w.client.DeleteAllOf(t.Context(), &discoveryv1.EndpointSlice{}, client.InNamespace("shop"), client.HasLabels{api.LabelExtends}); err != nil {
		t.Fatal(err)
	}
	w.extending("10.12.0.5")
	w.patch(ns, `{"labels":{"clusterset.dev/extend":null}}`)
	w.extending()
	w.patch(ns, `{"labels":{"clusterset.dev/extend":"allowed"}}`)
	w.extending("10.12.0.5")

	if err := w.client.Delete(t.Context(), web); err != nil {
		t.Fatal(err)
	}
	w.extending()
	w.here(askingWeb)
	w.extending("10.12.0.5")
	w.withdraw(shanghai)
	w.gone("shop", "web")
	w.extending()
	event("no other cluster exports the service")
	states(0, 1)

	w.onHub(shanghai)
	w.extending("10.12.0.5")
	written := len(run.local.written())
	w.onHub(records.Exported("baoding", "shop", "web", "10.3.0.1", "10.13.0.5"))
	w.extending("10.12.0.5", "10.13.0.5")
	w.withdraw(records.Exported("baoding", "shop", "web", "10.3.0.1", "10.13.0.5"))
	w.extending("10.12.0.5")
	if n := len(run.local.written()) - written; n == 0 || n > 20 {
		t.Errorf("a cluster that came and went cost %d writes", n)
	}

	// The Service goes while no agent runs, and its slices with it.
	run.stop()
	if err := w.client.Delete(t.Context(), web); err != nil {
		t.Fatal(err)
	}
	w.extending()
}
