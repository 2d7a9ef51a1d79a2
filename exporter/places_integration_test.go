package exporter_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/test/kube"
)

// Of a namespace with more ServiceExports than it may have, those that are exported stay exported, also after a restart, and the others say
// why they aren't. One of them follows when another is un-exported. Rule C60 of docs/spec/control-plane.md.
func TestANamespaceHasAMostOfExports(t *testing.T) {
	w := newWorld(t, kube.MCSCRDs()...)
	w.most, w.replaceFor = 2, time.Second
	stop := w.run()
	for _, name := range []string{"c", "b"} {
		w.member.Apply(t, manifest(webService, name), manifest(webExport, name, "v1beta1"))
		w.awaitRecords(name, 2)
	}
	w.member.Apply(t, manifest(webService, "a"), manifest(webExport, "a", "v1beta1"))
	w.awaitCondition("a", "Valid=False/NamespaceFull", "Ready=False/Failed")
	stop()
	w.member.Apply(t, manifest(webService, "s0"), manifest(webExport, "s0", "v1beta1")) // another
	stop = w.run()
	w.awaitCondition("s0", "Valid=False/NamespaceFull")
	w.awaitCondition("a", "Valid=False/NamespaceFull")
	w.awaitRecords("b", 2)
	w.awaitRecords("c", 2)

	w.member.Delete(t, manifest(webExport, "c", "v1beta1"))
	w.awaitRecords("c", -1)
	kube.Eventually(t, func() error {
		var list clustersetv1alpha1.ExportedServiceList
		err := w.onHub.List(t.Context(), &list)
		list.Items = slices.DeleteFunc(list.Items, func(s clustersetv1alpha1.ExportedService) bool { return !s.Exports() })
		if err != nil || len(list.Items) != 2 {
			return fmt.Errorf("%d services are on the hub, %w", len(list.Items), err)
		}
		return nil
	})
	stop()

	// With room for all, all are exported; the oldest first.
	w.most = 3
	w.run()
	for _, name := range []string{"a", "s0", "b"} {
		w.awaitCondition(name, "Valid=True/Valid", "Ready=True/Exported")
	}
}
