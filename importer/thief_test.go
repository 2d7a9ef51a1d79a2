package importer

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/test/kube"
	"github.com/clusterset/clusterset/test/records"
)

// A member's credentials change records as fast as they can. Another member's etcd grows by what the budget allows, and gets a third
// member's changes at once, also those of a service that the thief shares. Rule C39 of docs/spec/control-plane.md.
func TestAThiefsPatchesDoNotFillAnotherEtcd(t *testing.T) {
	const services, patches, burst = 10, 300, 256 << 10
	w := newWorld(t)
	w.member.InstallMCS(t)
	w.here(namespace("shop"), namespace("fill"))
	w.onHub(namespaceOf("thief"), memberOf("thief"))
	var all []*clustersetv1alpha1.ExportedEndpoints
	for i := range services {
		name := fmt.Sprint("web-", i)
		s := exportedBy("thief", mcsv1beta1.Headless, 0)
		s.Name, s.Spec.ServiceName, s.Spec.ServiceNamespace = name+".fill", name, "fill"
		if i == 0 { // which shanghai exports too
			s.Name, s.Spec.ServiceName, s.Spec.ServiceNamespace = "web.shop", "web", "shop"
		}
		w.create(s)
		for n := range 2 {
			e := endpointsOf("thief", i, n, 100)
			e.Name, e.Spec.ServiceName, e.Spec.ServiceNamespace = fmt.Sprintf("%s.x-%d", s.Name, n), s.Spec.ServiceName, s.Spec.ServiceNamespace
			w.create(e)
			all = append(all, e)
		}
	}
	honest := endpointsOf("shanghai", 150, 0, 1)
	w.create(exportedBy("shanghai", mcsv1beta1.Headless, 1))
	w.create(honest)

	patched := 0
	patch := func(n int) {
		t.Helper()
		for range n {
			patched++
			e, ready := all[patched%len(all)], patched/len(all)%2 == 1
			e.Spec.Endpoints[0].Conditions.Ready = &ready
			if err := w.hubClient.Update(t.Context(), e); err != nil {
				t.Fatal(err)
			}
		}
	}
	has := func(ns, name string, endpoints int) {
		t.Helper()
		kube.Eventually(t, func() error {
			if g := w.objects(ns, name).global; g == nil || len(g.Spec.Endpoints) != endpoints {
				return fmt.Errorf("its GlobalService is %+v", g)
			}
			return nil
		})
	}
	measure := func(options Options) (sent, stored int64) {
		t.Helper()
		run := w.start(options)
		defer run.stop()
		has("shop", "web", 201)
		for i := 1; i < services; i++ {
			has("fill", fmt.Sprint("web-", i), 200)
		}
		w.quiet(run, services)
		sent, stored = run.local.bytesSent(), w.etcdSize()
		patch(patches / 2)
		honest.Spec.Endpoints[0].Addresses[0] = fmt.Sprintf("10.150.0.%d", 10+patched%200)
		if err := w.hubClient.Update(t.Context(), honest); err != nil {
			t.Fatal(err)
		}
		patch(patches / 2)
		kube.Eventually(t, func() error {
			for _, s := range w.objects("shop", "web").slices {
				if s.Labels[api.LabelSourceCluster] == "shanghai" && s.Endpoints[0].Addresses[0] == honest.Spec.Endpoints[0].Addresses[0] {
					return nil
				}
			}
			return fmt.Errorf("shanghai's change isn't imported")
		})
		w.quiet(run, services)
		return run.local.bytesSent() - sent, w.etcdSize() - stored
	}
	sent, stored := measure(Options{WriteRate: 1 << 40, WriteBurst: 1 << 40})
	sentWith, storedWith := measure(Options{WriteRate: 1, WriteBurst: burst})
	t.Logf("%d patches: %d kB are sent and etcd grows by %d kB; with a budget of %d kB %d and %d kB", patches, sent/1000, stored/1000, burst/1000, sentWith/1000, storedWith/1000)
	if most := int64(4 * burst); sentWith > most || storedWith > most || sent < most || stored < most {
		t.Errorf("want no more than %d kB with a budget, and more without", most/1000)
	}
	kube.Eventually(t, func() error {
		var events eventsv1.EventList
		if err := w.client.List(t.Context(), &events); err != nil {
			return err
		}
		if !slices.ContainsFunc(events.Items, func(e eventsv1.Event) bool { return e.Reason == reasonLate && e.Regarding.Name == "thief" }) {
			return fmt.Errorf("no Event names the thief")
		}
		return nil
	})
}

// An attacker with a member's credentials publishes many services and claims an impossible age for a service of another member. The other
// members keep their addresses, and import no more of this cluster's services than the cap allows. CAPS=6000 publishes that many, against
// the default cap.
func TestOneMemberCannotFillTheOthers(t *testing.T) {
	publish, limit := 12, 5
	if n, err := strconv.Atoi(os.Getenv("CAPS")); err == nil {
		publish, limit = n, DefaultMaxServices
	}
	w := newWorld(t)
	w.member.InstallMCS(t)
	w.here(namespace("shop"), namespace("fill"))
	w.onHub(namespaceOf("thief"), strings.Replace(memberOf("thief"), "2020", "2026", 1))
	w.onHub(records.Exported("shanghai", "shop", "web", "10.2.0.1", "10.12.0.5"))
	run := w.start(Options{MaxServices: limit})
	vip := w.imported("shop", "web", 1).derived.Spec.ClusterIP

	w.onHub(strings.NewReplacer("2026-01-01", "1970-01-01", "ClusterSetIP", "Headless", "clusterIPs: [10.3.0.1]", "").
		Replace(records.Exported("thief", "shop", "web", "10.3.0.1", "10.13.0.5")))
	for i := range publish { // created within the same second, so their names decide the order
		w.hubCreate(records.Exported("thief", "fill", fmt.Sprintf("x%04d", i), "10.3.0.1", "10.13.0.6"))
	}
	limited := func() error {
		var services corev1.ServiceList
		if err := w.client.List(t.Context(), &services, client.InNamespace("fill"), client.MatchingLabels(desired.Labels())); err != nil {
			return err
		}
		if n := len(services.Items); n != limit-1 { // shop/web takes the first place
			return fmt.Errorf("%d Services in fill, want %d", n, limit-1)
		}
		return nil
	}
	kube.EventuallyWithin(t, kube.Patience+time.Duration(publish)*50*time.Millisecond, func() error {
		if n := metric(t, "clusterset_importer_services", "state", "capped"); int(n) != publish+1-limit {
			return fmt.Errorf("%v services are beyond the cap, want %d", n, publish+1-limit)
		}
		return limited()
	})
	imp := &mcsv1beta1.ServiceImport{}
	if err := w.client.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "web"}, imp); err != nil {
		t.Fatal(err)
	}
	if imp.Spec.Type != mcsv1beta1.ClusterSetIP || !slices.Equal(imp.Spec.IPs, []string{vip}) || len(imp.Status.Clusters) != 2 {
		t.Errorf("shop/web became %s with %v, was %s; its clusters are %v", imp.Spec.Type, imp.Spec.IPs, vip, imp.Status.Clusters)
	}
	kube.Eventually(t, func() error {
		var events eventsv1.EventList
		if err := w.client.List(t.Context(), &events); err != nil {
			return err
		}
		for _, e := range events.Items {
			if e.Reason == reasonCapped && e.Regarding.Name == "thief" && strings.Contains(e.Note, "cluster thief exports more than") {
				return nil
			}
		}
		return fmt.Errorf("no Event names the thief")
	})

	// After one of the first is withdrawn, the next one is imported, but never more than the cap allows.
	w.withdraw(records.Exported("thief", "fill", "x0000", "10.3.0.1", "10.13.0.6"))
	kube.Eventually(t, func() error {
		next := fmt.Sprintf("x%04d", limit-1)
		if err := w.client.Get(t.Context(), client.ObjectKey{Namespace: "fill", Name: next}, &mcsv1beta1.ServiceImport{}); err != nil {
			return err
		}
		return limited()
	})
	for _, write := range run.local.written() {
		if strings.HasSuffix(write, "/services/"+api.DerivedServiceName("shop", "web")) {
			t.Errorf("shop/web's address was touched: %s", write)
		}
	}
}

// create creates an object on the hub.
func (w *world) create(o client.Object) {
	w.t.Helper()
	if err := w.hubClient.Create(w.t.Context(), o); err != nil {
		w.t.Fatal(err)
	}
}

// etcdSize returns the size of the member's etcd.
func (w *world) etcdSize() int64 {
	w.t.Helper()
	answer, err := w.member.CallEtcd(w.t.Context(), "/v3/maintenance/status", struct{}{})
	if err != nil {
		w.t.Fatal(err)
	}
	var status struct {
		Size int64 `json:"dbSize,string"`
	}
	if err := json.Unmarshal(answer, &status); err != nil {
		w.t.Fatal(err)
	}
	return status.Size
}

// hubCreate creates many objects faster than onHub, because it doesn't wait until each kind can be applied.
func (w *world) hubCreate(manifests string) {
	w.t.Helper()
	for _, o := range records.Decode(w.t, manifests) {
		if err := w.hubClient.Create(w.t.Context(), o); err != nil {
			w.t.Fatal(err)
		}
	}
}
