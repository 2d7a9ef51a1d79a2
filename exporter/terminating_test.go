package exporter_test

import (
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/join"
	"github.com/clusterset/clusterset/internal/schema"
	"github.com/clusterset/clusterset/test/kube"
)

// Someone deletes a CustomResourceDefinition on the hub. While all objects of its kind are being deleted, the API server forbids new ones. Once
// the definition is back, so are the records: a minute, which a record waits that is refused, would be longer than importers keep it (C41 of
// docs/spec/control-plane.md).
func TestAKindThatIsBeingDeletedOnTheHubRefusesNothing(t *testing.T) {
	w := newWorld(t, kube.MCSCRDs()...)
	w.member.Apply(t, manifest(webService, "web"), manifest(webExport, "web", "v1beta1"))
	w.run()
	w.awaitRecords("web", 2)

	const held = "clusterset-test/held"
	var all clustersetv1alpha1.ExportedEndpointsList
	if err := w.onHub.List(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	last := &all.Items[0]
	change := func(f func(client.Object, string) bool) {
		t.Helper()
		was := last.DeepCopy()
		f(last, held)
		if err := w.onHub.Patch(t.Context(), last, client.MergeFrom(was)); err != nil {
			t.Fatal(err)
		}
	}
	change(controllerutil.AddFinalizer)
	definition := &unstructured.Unstructured{}
	definition.SetAPIVersion("apiextensions.k8s.io/v1")
	definition.SetKind("CustomResourceDefinition")
	definition.SetName("exportedendpoints.clusterset.dev")
	if err := w.onHub.Delete(t.Context(), definition); err != nil {
		t.Fatal(err)
	}
	kube.Eventually(t, func() error {
		other := &clustersetv1alpha1.ExportedEndpoints{Spec: last.Spec}
		other.Namespace, other.Name = last.Namespace, last.Name+"-other"
		if err := w.onHub.Create(t.Context(), other, client.DryRunAll); !schema.Terminating(err) {
			return fmt.Errorf("the kind isn't being deleted: %w", err)
		}
		return nil
	})
	w.member.Apply(t, manifest(webService, "db"), manifest(webExport, "db", "v1beta1"))
	w.awaitCondition("db", "Valid=True/Valid", "Ready=Unknown/Pending")

	change(controllerutil.RemoveFinalizer)
	kube.Eventually(t, func() error {
		if err := w.onHub.Get(t.Context(), client.ObjectKeyFromObject(definition), definition); !apierrors.IsNotFound(err) {
			return errors.Join(errors.New("the CustomResourceDefinition is still there"), err)
		}
		return nil
	})
	if err := join.InstallHubCRDs(t.Context(), join.At(w.hub.Config())); err != nil {
		t.Fatal(err)
	}
	w.awaitRecords("web", 2)
	w.awaitRecords("db", 2)
}
