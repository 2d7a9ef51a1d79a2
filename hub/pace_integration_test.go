package hub_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/test/kube"
)

// A member that reports other zones a hundred times changes its MemberCluster, which all members watch, a few times only.
// Rule C29 of docs/spec/control-plane.md.
func TestAFlappingReportIsTakenOnce(t *testing.T) {
	w := newWorld(t, "a", "b")
	w.run()
	w.awaitPhase(clustersetv1alpha1.MemberReady, "a", "b")
	observer, err := client.NewWithWatch(w.plane.Config(), client.Options{Scheme: w.admin.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	all, err := observer.Watch(t.Context(), &clustersetv1alpha1.MemberClusterList{}, &client.ListOptions{Raw: &metav1.ListOptions{FieldSelector: "metadata.name=a"}})
	if err != nil {
		t.Fatal(err)
	}
	defer all.Stop()
	report := &clustersetv1alpha1.MemberReport{ObjectMeta: metav1.ObjectMeta{Namespace: api.MemberNamespace("a"), Name: clustersetv1alpha1.MemberReportName}}
	if err := w.admin.Create(t.Context(), report); err != nil {
		t.Fatal(err)
	}
	state := func(zone string) {
		t.Helper()
		report.Spec.Zones = []string{zone}
		if err := w.admin.Update(t.Context(), report); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	for i := range 100 {
		state(fmt.Sprint("z", i))
	}
	// The last one is taken in the end, and nothing is missing from the count until then.
	changes := 0
	kube.EventuallyWithin(t, 3*time.Minute, func() error {
		for {
			select {
			case e := <-all.ResultChan():
				mc, ok := e.Object.(*clustersetv1alpha1.MemberCluster)
				if !ok || e.Type == watch.Error {
					t.Fatalf("the watch gives %+v", e)
				}
				if e.Type == watch.Modified {
					changes++
				}
				if len(mc.Status.Zones) == 1 && mc.Status.Zones[0] == "z99" {
					return nil
				}
			default:
				return errors.New("the last zone isn't taken")
			}
		}
	})
	if most := 4 + int(time.Since(began)/time.Minute); changes > most {
		t.Errorf("the MemberCluster changed %d times, want %d at most", changes, most)
	}
	t.Logf("100 reports changed it %d times in %s", changes, time.Since(began))
}
