package importer

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/test/kube"
	"github.com/clusterset/clusterset/test/records"
)

// In whatever order records come and go, a cluster's first records have room, and add and remove return the service that gains or loses
// it. Rule C35 of docs/spec/control-plane.md.
func TestImportQuota(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	passed := []int{}
	c := newImportQuota(5, func(_ context.Context, _ string, exports, _ int) { passed = append(passed, exports) })
	there := map[string]*clustersetv1alpha1.ExportedService{}
	room := map[string]bool{} // as last computed for the services that were enqueued
	for i := range 2000 {
		name := fmt.Sprintf("s%d", rng.IntN(12))
		record := there[name]
		var moved types.NamespacedName
		if record == nil {
			record = &clustersetv1alpha1.ExportedService{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: "clusterset-member-a", Name: name + ".shop", CreationTimestamp: metav1.NewTime(time.Unix(int64(rng.IntN(4)), 0)),
				},
				Spec: clustersetv1alpha1.ExportedServiceSpec{ServiceNamespace: "shop", ServiceName: name},
			}
			there[name] = record
			moved = c.add(t.Context(), record)
			if again := c.add(t.Context(), record); again.Name != "" {
				t.Fatalf("a record that is known moved %s", again)
			}
		} else {
			delete(there, name)
			moved = c.remove(t.Context(), record)
			delete(room, name)
		}
		for _, n := range []string{name, moved.Name} {
			if there[n] != nil {
				room[n] = !c.over(there[n])
			}
		}
		var want []string
		all := []*clustersetv1alpha1.ExportedService{}
		for _, r := range there {
			all = append(all, r)
		}
		slices.SortFunc(all, func(a, b *clustersetv1alpha1.ExportedService) int {
			if d := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); d != 0 {
				return d
			}
			return strings.Compare(a.Name, b.Name)
		})
		for i, r := range all {
			if i < 5 {
				want = append(want, r.Spec.ServiceName)
			}
		}
		var got []string
		for n, has := range room {
			if has {
				got = append(got, n)
			}
		}
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Fatalf("step %d: %v have room, want %v", i, got, want)
		}
	}
	for i, n := range passed {
		if want := 6 - i%2; n != want {
			t.Fatalf("the cap was passed with %v", passed)
		}
	}
	if len(passed) == 0 {
		t.Error("the cap was never passed")
	}
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

// hubCreate creates many objects faster than onHub, because it doesn't wait until each kind can be applied.
func (w *world) hubCreate(manifests string) {
	w.t.Helper()
	for _, o := range records.Decode(w.t, manifests) {
		if err := w.hubClient.Create(w.t.Context(), o); err != nil {
			w.t.Fatal(err)
		}
	}
}
