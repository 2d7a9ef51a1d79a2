package importer

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/test/kube"
	"github.com/clusterset/clusterset/test/records"
)

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
