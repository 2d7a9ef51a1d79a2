package importer

import (
	"fmt"
	"testing"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/test/kube"
	"github.com/clusterset/clusterset/test/records"
)

func TestAHubThatIsDownDeletesNothing(t *testing.T) {
	w := newWorld(t)
	w.member.InstallMCS(t)
	w.here(namespace("shop"))
	w.onHub(records.Exported("beijing", "shop", "web", "10.1.0.1", "10.11.0.5"))
	run := w.start(Options{})
	before := w.imported("shop", "web", 1)
	run.stop()

	w.hub.StopAPIServer()
	run = w.start(Options{})
	kube.Eventually(t, soon, func() error {
		if len(run.local.watched()) == 0 {
			return fmt.Errorf("the local API server isn't watched yet")
		}
		return nil
	})
	if got := run.local.written(); len(got) > 0 {
		t.Errorf("wrote %v", got)
	}
	if err := w.hub.StartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.onHub(records.Exported("shanghai", "shop", "web", "10.2.0.1", "10.12.0.5"))
	after := w.imported("shop", "web", 2)
	if after.derived.UID != before.derived.UID {
		t.Error("the derived Service was made anew")
	}
}

// A rollout in this cluster while the hub is away is right here, and stays right when it is back with what it knew.
func TestLocalRolloutWithoutTheHub(t *testing.T) {
	w := newWorld(t)
	w.member.InstallMCS(t)
	own := func(address string) string {
		return fmt.Sprintf(`
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {namespace: shop, name: x, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: http, port: 8080}]
endpoints: [{addresses: [%s], nodeName: n1}]
`, address)
	}
	w.here(namespace("shop"), "apiVersion: v1\nkind: Service\nmetadata: {namespace: shop, name: web}\nspec: {ports: [{name: http, port: 80}]}", own("10.11.0.5"))
	w.onHub(records.Exported("beijing", "shop", "web", "10.1.0.1", "10.11.0.5"), records.Exported("shanghai", "shop", "web", "10.2.0.1", "10.12.0.5"))
	run := w.start(Options{})
	before := w.imported("shop", "web", 2)
	follows := func(address string) {
		t.Helper()
		kube.Eventually(t, soon, func() error {
			o := w.objects("shop", "web")
			if len(o.slices) != 2 || len(o.serviceImport.Status.Clusters) != 2 {
				return fmt.Errorf("%d slices of clusters %v", len(o.slices), o.serviceImport.Status.Clusters)
			}
			for _, s := range o.slices {
				e := s.Endpoints[0]
				if s.Labels[api.LabelSourceCluster] == "beijing" && (e.Addresses[0] != address || e.NodeName == nil || *e.NodeName != "n1") {
					return fmt.Errorf("beijing's endpoint is %+v, want %s", e, address)
				}
			}
			return nil
		})
	}
	follows("10.11.0.5")
	w.hub.StopAPIServer()
	w.here(own("10.11.0.6"))
	follows("10.11.0.6")
	if err := w.hub.StartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.onHub(records.Exported("shanghai", "shop", "web", "10.2.0.2", "10.12.0.5")) // news, which come after all that the hub still has of beijing
	kube.Eventually(t, soon, func() error {
		if g := w.objects("shop", "web").global; len(g.Spec.Endpoints) != 2 || g.Spec.Endpoints[1].Addresses[0] != "10.2.0.2" {
			return fmt.Errorf("GlobalService has %+v", g.Spec.Endpoints)
		}
		return nil
	})
	follows("10.11.0.6")
	w.quiet(run, 1)
	follows("10.11.0.6")
	if after := w.objects("shop", "web"); after.derived.UID != before.derived.UID {
		t.Error("the derived Service was made anew")
	}
}
