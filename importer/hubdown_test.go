package importer

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/test/kube"
	"github.com/clusterset/clusterset/test/records"
)

// An agent that starts while the hub is down writes nothing, nor when the hub is back and nothing has changed. Rule C40 of docs/spec/control-plane.md.
func TestAStartWithoutTheHubWritesNothing(t *testing.T) {
	w := newWorld(t)
	w.member.InstallMCS(t)
	w.here(namespace("shop"))
	web := records.Exported("baoding", "shop", "web", "10.1.0.1", "10.11.0.5")
	w.onHub(web, strings.Replace(records.Exported("baoding", "shop", "partly", "10.1.0.2", "10.11.0.6"), "{addresses: [10.11.0.6]}", "{addresses: [10.11.0.6]}, {addresses: [127.0.0.1]}", 1))
	run := w.start(Options{})
	w.imported("shop", "web", 1)
	before := w.imported("shop", "partly", 1)
	w.quiet(run, 1)
	run.stop()

	w.hub.StopAPIServer()
	run = w.start(Options{})
	wroteNothing := func(when string) {
		t.Helper()
		w.quiet(run, 2)
		for _, write := range run.local.written() {
			if !strings.Contains(write, "/memberclusters/") { // that the hub is away
				t.Errorf("%s: wrote %s", when, write)
			}
		}
	}
	wroteNothing("without the hub")
	if err := w.hub.StartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	kube.Eventually(t, func() error {
		if !run.known.HasSynced() {
			return errors.New("the hub hasn't been read")
		}
		return nil
	})
	wroteNothing("with the hub")
	w.withdraw(web)
	w.gone("shop", "web")
	w.onHub(records.Exported("shanghai", "shop", "partly", "10.2.0.1", "10.12.0.5"))
	if after := w.imported("shop", "partly", 2); after.derived.UID != before.derived.UID {
		t.Error("the derived Service was created again")
	}
}

// Changes of a local Service while the hub is down take effect here, both in an agent that keeps running and in one that starts
// meanwhile. They stay in effect when the hub comes back with its old state.
func TestLocalFirstWithoutTheHub(t *testing.T) {
	w := newWorld(t)
	w.member.InstallMCS(t)
	w.here(namespace("shop"), node("n1", "beijing-1"))
	w.exports("10.11.0.5")
	w.onHub(records.Exported("shanghai", "shop", "web", "10.2.0.1", "10.12.0.5"))
	run := w.start(Options{})
	before := w.imported("shop", "web", 2)
	// follows waits until beijing's only endpoint is own, which is preferred, or until it has none if own is empty. Shanghai's
	// endpoint must be unchanged.
	follows := func(own string) {
		t.Helper()
		kube.Eventually(t, func() error {
			o := w.objects("shop", "web")
			if o.serviceImport == nil || o.derived == nil || len(o.serviceImport.Status.Clusters) != 2 {
				return fmt.Errorf("the import is %+v", o.serviceImport)
			}
			got := map[string]string{}
			for _, s := range o.slices {
				for _, e := range s.Endpoints {
					if e.Hints == nil {
						return fmt.Errorf("%v has no hints", e.Addresses)
					}
					got[s.Labels[api.LabelSourceCluster]] += e.Addresses[0] + " " + e.Hints.ForZones[0].Name
					if e.NodeName != nil {
						got[s.Labels[api.LabelSourceCluster]] += " on " + *e.NodeName
					}
				}
			}
			want := map[string]string{"beijing": own + " beijing-1 on n1", "shanghai": "10.12.0.5 none.clusterset.dev"}
			addresses := 2
			if own == "" {
				want, addresses = map[string]string{"shanghai": "10.12.0.5 beijing-1"}, 1
			}
			if !maps.Equal(got, want) || len(o.global.Spec.Endpoints) != addresses {
				return fmt.Errorf("%v, GlobalService %+v, want %v", got, o.global.Spec.Endpoints, want)
			}
			return nil
		})
	}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	follows("10.11.0.5")
	w.hub.StopAPIServer()
	w.here(ownSlice("10.11.0.6"))
	follows("10.11.0.6")

	run.stop()
	run = w.start(Options{})
	w.here(ownSlice("10.11.0.7"))
	follows("10.11.0.7")
	if after := w.objects("shop", "web"); after.serviceImport.ResourceVersion != before.serviceImport.ResourceVersion || after.derived.UID != before.derived.UID {
		t.Error("what the service is has changed without the hub")
	}
	if err := w.client.Delete(t.Context(), service); err != nil {
		t.Fatal(err)
	}
	follows("")
	w.here(ownService, ownSlice("10.11.0.8"))
	follows("10.11.0.8")

	if err := w.hub.StartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.onHub(records.Exported("shanghai", "shop", "web", "10.2.0.2", "10.12.0.5")) // arrives after all of beijing's old records on the hub
	kube.Eventually(t, func() error {
		if g := w.objects("shop", "web").global; len(g.Spec.Endpoints) != 2 || g.Spec.Endpoints[1].Addresses[0] != "10.2.0.2" {
			return fmt.Errorf("GlobalService has %+v", g.Spec.Endpoints)
		}
		return nil
	})
	follows("10.11.0.8")
	w.quiet(run, 1)
	follows("10.11.0.8")
	if err := w.client.Delete(t.Context(), service); err != nil {
		t.Fatal(err)
	}
	follows("") // the hub keeps beijing's record until the exporter deletes it
	if after := w.objects("shop", "web"); after.derived.UID != before.derived.UID {
		t.Error("the derived Service was created again")
	}
}
