package importer

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/test/kube"
	"github.com/clusterset/clusterset/test/records"
)

// Where a cluster has no Service of an imported service's name, the importer makes one, and leaves it to whoever takes it. Rules D70 and D71 of
// docs/spec/data-path.md.
func TestServicesOfServicesNames(t *testing.T) {
	w := newWorld(t)
	w.member.InstallMCS(t)
	const theirs = "{apiVersion: v1, kind: Service, metadata: {namespace: shop, name: theirs}, spec: {ports: [{port: 81}]}}"
	label := func(with string) {
		t.Helper()
		w.here("{apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {clusterset.dev/extend: allowed" + with + "}}}")
	}
	label("")
	w.here(theirs)
	names := []string{"web", "theirs", "selecting", "port", "applied", "client", "bare", "extended"}
	for _, name := range names {
		w.onHub(records.Exported("shanghai", "shop", name, "10.2.0.1", "10.12.0.5"))
	}
	run := w.start(Options{})
	w.quiet(run, float64(len(names)))
	for _, name := range names {
		w.isNamed(name, false)
	}
	label(", clusterset.dev/own-names: create")
	for _, name := range names {
		w.isNamed(name, name != "theirs")
	}
	if svc := w.named("web"); len(svc.Spec.Selector) > 0 || len(svc.OwnerReferences) > 0 || svc.Spec.ClusterIP == "" || svc.Spec.Ports[0].Port != 80 {
		t.Errorf("the Service is %+v", svc)
	}

	w.quiet(run, 1)
	run.stop()
	run = w.start(Options{})
	w.quiet(run, float64(len(names)))
	if got := run.local.written(); len(got) > 0 {
		t.Errorf("after a restart it wrote %v", got)
	}

	// What somebody else changes without taking it is undone, and what he deletes is made again.
	w.patch("web", types.MergePatchType, `{"spec":{"sessionAffinity":"ClientIP"}}`)
	kube.Eventually(t, func() error {
		if svc := w.named("web"); svc == nil || svc.Spec.SessionAffinity != corev1.ServiceAffinityNone {
			return fmt.Errorf("the Service is %+v", svc)
		}
		return nil
	})
	w.member.Delete(t, []byte("{apiVersion: v1, kind: Service, metadata: {namespace: shop, name: web}}"), []byte(theirs))
	w.isNamed("web", true)
	w.isNamed("theirs", true)

	// Whoever takes one has it from then on, with his spec; so he who does it again and again, as GitOps tools do.
	before := len(run.local.written())
	take := func() {
		w.patch("selecting", types.MergePatchType, `{"spec":{"selector":{"app":"web"}}}`)
		w.patch("port", types.MergePatchType, `{"spec":{"type":"NodePort"}}`)
		w.here("{apiVersion: v1, kind: Service, metadata: {namespace: shop, name: applied}, spec: {sessionAffinity: ClientIP, ports: [{name: http, port: 80}]}}")
		w.patch("client", types.StrategicMergePatchType, `{"metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{}"}},"spec":{"sessionAffinity":"ClientIP"}}`)
		w.patch("bare", types.MergePatchType, `{"metadata":{"labels":{"clusterset.dev/managed-by":null}},"spec":{"sessionAffinity":"ClientIP"}}`)
		w.patch("extended", types.MergePatchType, `{"metadata":{"annotations":{"clusterset.dev/extend":"true"}},"spec":{"selector":{"app":"web"}}}`)
	}
	taken := []string{"selecting", "port", "applied", "client", "bare"}
	for range 2 {
		take()
		for _, name := range taken {
			w.isNamed(name, false)
		}
		kube.Eventually(t, func() error {
			is := w.slicesBehind("extended")
			if desired.Named(w.service("extended")) || len(is) != 1 || is[0].Endpoints[0].Conditions.Terminating == nil {
				return fmt.Errorf("the Service that asks to be extended has %+v", is)
			}
			return nil
		})
		w.quiet(run, 1)
	}
	for _, name := range []string{"selecting", "extended"} {
		if svc := w.service(name); svc.Spec.Selector["app"] != "web" || svc.Annotations[corev1.AnnotationTopologyMode] != "" || svc.Labels[api.LabelExtends] != "" {
			t.Errorf("%s is %+v", name, svc)
		}
	}
	for _, name := range []string{"applied", "client", "bare"} {
		if svc := w.service(name); svc.Spec.SessionAffinity != corev1.ServiceAffinityClientIP {
			t.Errorf("%s is %+v", name, svc)
		}
	}
	writes := map[string]int{}
	for _, write := range run.local.written()[before:] {
		writes[write]++
	}
	for _, name := range append(taken, "extended") {
		want := 1
		if name == "bare" {
			want = 0 // nothing of it is ours
		}
		if n := writes["PUT /api/v1/namespaces/shop/services/"+name]; n != want {
			t.Errorf("%s was written %d times, want %d: %v", name, n, want, writes)
		}
	}

	w.withdraw(records.Exported("shanghai", "shop", "theirs", "", ""))
	w.isNamed("theirs", false)
	label("")
	w.isNamed("web", false)
	for _, name := range append(taken, "extended") {
		w.service(name) // is still there
	}
}

// While the hub still has this cluster's export of a Service that was deleted, the one in its place isn't this cluster's own. Rule D70.
func TestAServiceInPlaceOfTheOwn(t *testing.T) {
	g := newRig(Options{DataPath: desired.DataPathPods})
	g.here.put(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{api.KeyOwnNames: api.OwnNamesCreate}}})
	g.hub.put(memberAt("shanghai", "zone-1"))
	for n, cluster := range []string{"here", "shanghai"} {
		g.hub.put(exportedBy(cluster, mcsv1beta1.ClusterSetIP, n))
		g.hub.put(endpointsOf(cluster, n, 0, 1))
	}
	g.reconcile(t)
	in, _ := g.gathered(t)
	svc := g.here.get(&corev1.Service{ObjectMeta: here("web")})
	if svc == nil || len(in.Own.ClusterIPs) > 0 || len(in.Own.Endpoints) > 0 {
		t.Errorf("the Service is %+v, and this cluster's own is %+v", svc, in.Own)
	}
}

func (w *world) patch(service string, kind types.PatchType, patch string) {
	w.t.Helper()
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: service}}
	if err := w.client.Patch(w.t.Context(), svc, client.RawPatch(kind, []byte(patch))); err != nil {
		w.t.Fatal(err)
	}
}

// service returns a Service of namespace shop that has to be there.
func (w *world) service(name string) *corev1.Service {
	w.t.Helper()
	svc := &corev1.Service{}
	if err := w.client.Get(w.t.Context(), client.ObjectKey{Namespace: "shop", Name: name}, svc); err != nil {
		w.t.Fatal(err)
	}
	return svc
}

// named returns the Service of that name, nil if there is none of the importer's.
func (w *world) named(name string) *corev1.Service {
	w.t.Helper()
	svc := &corev1.Service{}
	if err := w.client.Get(w.t.Context(), client.ObjectKey{Namespace: "shop", Name: name}, svc); client.IgnoreNotFound(err) != nil {
		w.t.Fatal(err)
	}
	if !desired.Named(svc) {
		return nil
	}
	return svc
}

// slicesBehind returns the importer's slices behind a Service's own name.
func (w *world) slicesBehind(name string) []discoveryv1.EndpointSlice {
	w.t.Helper()
	var all discoveryv1.EndpointSliceList
	if err := w.client.List(w.t.Context(), &all, client.InNamespace("shop"), client.MatchingLabels{api.LabelExtends: name}); err != nil {
		w.t.Fatal(err)
	}
	return all.Items
}

// isNamed waits until the Service of that name is the importer's and leads to shanghai, or isn't, and nothing of the importer's is behind it.
func (w *world) isNamed(name string, want bool) {
	w.t.Helper()
	kube.Eventually(w.t, func() error {
		svc, behind, to := w.named(name), w.slicesBehind(name), ""
		for _, s := range behind {
			to += fmt.Sprint(s.Labels[discoveryv1.LabelServiceName], "=", s.Endpoints[0].Addresses[0], svc != nil && s.OwnerReferences[0].UID == svc.UID)
		}
		if (svc != nil) != want || want && to != name+"=10.12.0.5true" || !want && to != "" {
			return fmt.Errorf("%s: the importer's is there: %v, want %v; the slices lead to %s", name, svc != nil, want, strings.TrimSpace(to))
		}
		return nil
	})
}
