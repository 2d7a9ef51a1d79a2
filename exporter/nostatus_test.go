package exporter_test

import (
	"bytes"
	"errors"
	"testing"

	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/test/kube"
)

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
