package exporter_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/test/kube"
)

func TestExporterKeepsTheHubUpToDate(t *testing.T) {
	w := newWorld(t, kube.MCSCRDs()...)
	ctx := t.Context()

	// The hub has a record that its exporter couldn't remove before it died. Then the hub goes down.
	orphan := &clustersetv1alpha1.ExportedService{
		ObjectMeta: metav1.ObjectMeta{Namespace: api.MemberNamespace("beijing"), Name: "old.shop"},
		Spec: clustersetv1alpha1.ExportedServiceSpec{
			ServiceNamespace: "shop", ServiceName: "old",
			Type: mcsv1beta1.ClusterSetIP, ExportedAt: metav1.Now(),
		},
	}
	if err := w.onHub.Create(ctx, orphan); err != nil {
		t.Fatal(err)
	}
	w.hub.StopAPIServer()
	w.member.Apply(t, manifest(webService, "web"), manifest(webExport, "web", "v1beta1"), manifest(webService, "marked"))
	w.member.Apply(t, []byte(`{apiVersion: v1, kind: Service, metadata: {namespace: shop, name: marked, labels: {fabedge.io/global-service: "true"}}, spec: {ports: [{name: http, port: 80, targetPort: 8080}]}}`))
	stop := w.run()
	w.awaitCondition("web", "Valid=True/Valid", "Ready=Unknown/Pending")
	w.awaitCondition("marked", "Valid=True/Valid", "Ready=Unknown/Pending")

	if err := w.hub.StartAPIServer(ctx); err != nil {
		t.Fatal(err)
	}
	w.awaitRecords("web", 2)
	w.awaitRecords("marked", 2)
	w.awaitRecords("old", -1)
	w.awaitCondition("web", "Valid=True/Valid", "Ready=True/Exported", "Conflict=False/NoConflicts")
	kube.Eventually(t, func() error {
		lease, err := w.lease()
		if err != nil || lease.Spec.RenewTime == nil || len(lease.Annotations) > 0 {
			return fmt.Errorf("lease %+v, %w", lease, err)
		}
		report, err := w.report()
		if said := report.Spec; err != nil || said.AgentVersion != "v1.2.3" || !slices.Equal(said.Zones, []string{"a", "b"}) {
			return fmt.Errorf("it reports %+v, %w", said, err)
		}
		return nil
	})
	first, err := w.lease()
	if err != nil {
		t.Fatal(err)
	}
	kube.Eventually(t, func() error {
		if lease, err := w.lease(); err != nil || !lease.Spec.RenewTime.After(first.Spec.RenewTime.Time) {
			return fmt.Errorf("the heartbeat stands still: %w", err)
		}
		return nil
	})

	t.Run("un-exporting removes the records", func(t *testing.T) {
		// Deleting the Service removes them, and the ServiceExport reports why.
		w.member.Delete(t, []byte(`{apiVersion: v1, kind: Service, metadata: {namespace: shop, name: web}}`))
		w.awaitRecords("web", -1)
		w.awaitCondition("web", "Valid=False/NoService", "Ready=False/Pending")
	})
	t.Run("a namespace's mark exports its Services", func(t *testing.T) {
		namespace := func(mark string) []byte {
			return manifest(`{apiVersion: v1, kind: Namespace, metadata: {name: shop, annotations: {fabedge.io/global-service: "%s"}}}`, mark)
		}
		w.member.Apply(t, manifest(webService, "plain"), manifest(webService, "local"),
			[]byte(`{apiVersion: v1, kind: Service, metadata: {namespace: shop, name: local, annotations: {fabedge.io/global-service: "false"}}, spec: {ports: [{name: http, port: 80}]}}`))
		w.member.Apply(t, namespace("true"))
		w.awaitRecords("plain", 2)
		w.member.Apply(t, manifest(webService, "made-later"))
		w.awaitRecords("made-later", 2)
		w.awaitRecords("local", -1)
		w.member.Apply(t, namespace("false"))
		w.awaitRecords("plain", -1)
		w.awaitRecords("made-later", -1)
	})
	t.Run("a namespace of the system's is refused, marked or not", func(t *testing.T) {
		for _, m := range [][]byte{
			[]byte(`{apiVersion: v1, kind: Namespace, metadata: {name: kube-apps, labels: {fabedge.io/global-service: "true"}}}`),
			manifest(webService, "web"), manifest(webExport, "web", "v1beta1"), manifest(webService, "marked"),
		} {
			w.member.Apply(t, bytes.ReplaceAll(m, []byte("namespace: shop"), []byte("namespace: kube-apps")))
		}
		for _, name := range []string{"web", "marked"} {
			w.awaitCondition("kube-apps/"+name, "Valid=False/NamespaceExcluded")
			found := &clustersetv1alpha1.ExportedService{}
			if err := w.onHub.Get(ctx, types.NamespacedName{Namespace: api.MemberNamespace("beijing"), Name: name + ".kube-apps"}, found); !apierrors.IsNotFound(err) {
				t.Errorf("%s is on the hub: %v", name, err)
			}
		}
	})

	// The ServiceExport is deleted while the exporter is down. The exporter notices when it starts.
	w.member.Apply(t, manifest(webService, "web"), manifest(webService, "kept"), manifest(webExport, "kept", "v1beta1"))
	w.awaitRecords("web", 2)
	w.awaitRecords("kept", 2)
	stop()
	w.member.Delete(t, manifest(webExport, "web", "v1beta1"))
	w.poison("web", "kept")
	w.run()
	w.awaitRecords("web", -1)
	w.awaitRecords("kept", 2)
	kube.Eventually(t, func() error {
		services, endpoints := w.recordsOf("kept")
		if len(services) != 1 || len(endpoints) != 1 || services[0].Spec.Ports[0].Port != 80 ||
			services[0].DeletionTimestamp != nil || endpoints[0].DeletionTimestamp != nil {
			return fmt.Errorf("%+v, %+v", services, endpoints)
		}
		return nil
	})
}

// poison does to a service's records what a thief of the credentials can, on a hub with its policy and without a garbage collector: they lie,
// and are deleted so that they stay.
func (w *world) poison(names ...string) {
	w.Helper()
	w.hub.Apply(w, noFinalizers)
	thief := w.thief()
	for _, name := range names {
		services, endpoints := w.recordsOf(name)
		services[0].Spec.Ports[0].Port = 1
		if err := thief.Update(w.Context(), &services[0]); err != nil {
			w.Fatal(err)
		}
		for policy, o := range map[metav1.DeletionPropagation]client.Object{
			metav1.DeletePropagationOrphan: &services[0], metav1.DeletePropagationForeground: &endpoints[0],
		} {
			if err := thief.Delete(w.Context(), o, client.PropagationPolicy(policy)); err != nil {
				w.Fatal(err)
			}
			kube.Eventually(w, func() error {
				if err := thief.Get(w.Context(), client.ObjectKeyFromObject(o), o); err != nil || len(o.GetFinalizers()) == 0 {
					return fmt.Errorf("the hub has a garbage collector: %w", err)
				}
				if err := thief.Update(w.Context(), o, client.DryRunAll); !apierrors.IsInvalid(err) {
					return fmt.Errorf("the policy isn't in force: %w", err)
				}
				return nil
			})
		}
	}
}

// recordsOf returns a service's records.
func (w *world) recordsOf(name string) ([]clustersetv1alpha1.ExportedService, []clustersetv1alpha1.ExportedEndpoints) {
	w.Helper()
	var services clustersetv1alpha1.ExportedServiceList
	var endpoints clustersetv1alpha1.ExportedEndpointsList
	of := client.MatchingLabels{api.LabelExportedName: name}
	if err := errors.Join(w.onHub.List(w.Context(), &services, of), w.onHub.List(w.Context(), &endpoints, of)); err != nil {
		w.Fatal(err)
	}
	return services.Items, endpoints.Items
}

// A ServiceExport whose definition has no status subresource can have no conditions: Events say what they would. Rule C2 of
// docs/spec/control-plane.md.
func TestWithoutTheStatusSubresourceEventsSayIt(t *testing.T) {
	var crds [][]byte
	for _, crd := range kube.MCSCRDs() {
		crd = bytes.ReplaceAll(crd, []byte("      subresources:\n        status: {}\n"), nil)
		crds = append(crds, bytes.Replace(crd, []byte("name: v1beta1\n      served: true"), []byte("name: v1beta1\n      served: false"), 1))
	}
	w := newWorld(t, crds...)
	w.member.Apply(t, manifest(webExport, "nothing", "v1alpha1"), manifest(webService, "web"), manifest(webExport, "web", "v1alpha1"))
	w.run()
	w.awaitRecords("web", 2)
	told := func() (n int) {
		var all eventsv1.EventList
		if err := w.here.List(t.Context(), &all, client.InNamespace("shop")); err != nil {
			t.Fatal(err)
		}
		for _, e := range all.Items {
			if e.Regarding.Name == "nothing" && e.Reason == "NoService" {
				n++
			}
		}
		return n
	}
	kube.Eventually(t, func() error {
		if told() == 0 {
			return errors.New("nobody says that shop/nothing isn't exported")
		}
		return nil
	})
}
