package exporter_test

import (
	"fmt"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/test/kube"
)

// A record that has lost its label is invisible to a watch that selects by it. The exporter restores it if its service is exported, and
// withdraws it if not. Neither delays the heartbeat.
// Rule C9 of docs/spec/control-plane.md.
func TestRecordsWithoutTheirLabels(t *testing.T) {
	w := newWorld(t, kube.MCSCRDs()...)
	for _, name := range []string{"web", "gone"} {
		w.member.Apply(t, manifest(webService, name), manifest(webExport, name, "v1beta1"))
	}
	stop := w.run()
	w.awaitRecords("web", 2)
	w.awaitRecords("gone", 2)

	unlabel := func() {
		t.Helper()
		remove := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"`+api.LabelExportedNamespace+`":null}}}`))
		in := client.InNamespace(api.MemberNamespace("beijing"))
		var services clustersetv1alpha1.ExportedServiceList
		var endpoints clustersetv1alpha1.ExportedEndpointsList
		if err := w.onHub.List(t.Context(), &services, in); err != nil {
			t.Fatal(err)
		}
		if err := w.onHub.List(t.Context(), &endpoints, in); err != nil {
			t.Fatal(err)
		}
		for i := range services.Items {
			if err := w.onHub.Patch(t.Context(), &services.Items[i], remove); err != nil {
				t.Fatal(err)
			}
		}
		for i := range endpoints.Items {
			if err := w.onHub.Patch(t.Context(), &endpoints.Items[i], remove); err != nil {
				t.Fatal(err)
			}
		}
	}
	labelled := func(want int) {
		t.Helper()
		kube.Eventually(t, func() error {
			in, with := client.InNamespace(api.MemberNamespace("beijing")), client.MatchingLabels{api.LabelExportedNamespace: "shop"}
			var services clustersetv1alpha1.ExportedServiceList
			var endpoints clustersetv1alpha1.ExportedEndpointsList
			if err := w.onHub.List(t.Context(), &services, in, with); err != nil {
				return err
			}
			if err := w.onHub.List(t.Context(), &endpoints, in, with); err != nil {
				return err
			}
			if len(services.Items) != want || len(endpoints.Items) != want {
				return fmt.Errorf("%d services and %d endpoints have their labels, want %d of each", len(services.Items), len(endpoints.Items), want)
			}
			return nil
		})
	}
	unlabel() // while the exporter watches
	labelled(2)
	kube.Eventually(t, func() error {
		_, err := w.lease()
		return err
	})
	stop()
	unlabel() // while it doesn't
	w.member.Delete(t, manifest(webExport, "gone", "v1beta1"))
	before, err := w.lease()
	if err != nil {
		t.Fatal(err)
	}
	w.run()
	labelled(1)
	w.awaitRecords("gone", -1)
	kube.Eventually(t, func() error {
		if lease, err := w.lease(); err != nil || !lease.Spec.RenewTime.After(before.Spec.RenewTime.Time) {
			return fmt.Errorf("no heartbeat after the restart: %w", err)
		}
		return nil
	})
}
