package importer

import (
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/clusterset/clusterset/api/crds"
	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
	"github.com/clusterset/clusterset/test/kube"
	"github.com/clusterset/clusterset/test/records"
)

// Rule C38 of docs/spec/control-plane.md: without the kind GlobalService everything else is imported, from the start and after FabDNS was
// uninstalled, and once it is installed an agent that starts writes them.
func TestGlobalServiceNeedNotBeInstalled(t *testing.T) {
	w := newWorld(t)
	w.member.InstallMCS(t)
	w.here(namespace("shop"))
	kind, err := crds.FS.ReadFile("dns.fabedge.io_globalservices.yaml")
	if err != nil {
		t.Fatal(err)
	}
	// imports waits until shop/web is imported with that endpoint, with or without a GlobalService.
	imports := func(endpoint string, global bool) {
		t.Helper()
		w.onHub(records.Exported("baoding", "shop", "web", "10.1.0.1", endpoint))
		kube.Eventually(t, func() error {
			o := w.objects("shop", "web")
			switch {
			case o.serviceImport == nil || o.derived == nil || len(o.slices) != 1 || o.slices[0].Endpoints[0].Addresses[0] != endpoint:
				return fmt.Errorf("not all there: %+v", o)
			case (o.global != nil) != global:
				return fmt.Errorf("the GlobalService is %+v", o.global)
			}
			if n := metric(t, "clusterset_importer_services", "state", "imported"); n != 1 {
				return fmt.Errorf("%v services imported", n)
			}
			return nil
		})
	}
	uninstall := func() {
		t.Helper()
		w.member.Delete(t, kind)
		kube.Eventually(t, func() error {
			var all fabedgev1alpha1.GlobalServiceList
			if err := w.client.List(t.Context(), &all); !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) {
				return fmt.Errorf("it is still installed: %w", err)
			}
			return nil
		})
	}
	uninstall()
	run := w.start(Options{})
	imports("10.11.0.5", false)
	w.member.Apply(t, kind)
	run.stop()
	servicesGauge.Reset()
	w.start(Options{})
	imports("10.11.0.6", true)
	uninstall()
	imports("10.11.0.7", false)
}
