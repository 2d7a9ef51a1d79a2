package importer

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus/testutil"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/test/kube"
	"github.com/clusterset/clusterset/test/records"
)

// Rule C58 of docs/spec/control-plane.md, in an agent: the option limits what it keeps of one cluster, an Event and a metric name the cluster,
// and others' services are imported.
func TestRecordsBeyondTheirMemoryAreLeftOut(t *testing.T) {
	const all = 40
	w := newWorld(t)
	w.member.InstallMCS(t)
	w.here(namespace("shop"))
	for i := range all {
		w.onHub(records.Exported("shanghai", "shop", fmt.Sprint("s", i), "10.2.0.1", "10.12.0.5"))
	}
	w.onHub(records.Exported("baoding", "shop", "honest", "10.3.0.1", "10.13.0.5"))
	w.start(Options{RecordMemory: 48 << 10})
	w.imported("shop", "honest", 1)
	kube.Eventually(t, func() error {
		var all eventsv1.EventList
		if err := w.client.List(t.Context(), &all); err != nil {
			return err
		}
		for _, e := range all.Items {
			if e.Reason == reasonTooMuchMemory && e.Regarding.Kind == "MemberCluster" && e.Regarding.Name == "shanghai" {
				return nil
			}
		}
		return fmt.Errorf("none of %d Events is %s of shanghai", len(all.Items), reasonTooMuchMemory)
	})
	if left := testutil.ToFloat64(leftOutGauge.WithLabelValues("shanghai")); left != 1 {
		t.Errorf("the metric of what is left out is %v", left)
	}
	var imports mcsv1beta1.ServiceImportList
	if err := w.client.List(t.Context(), &imports, client.InNamespace("shop")); err != nil {
		t.Fatal(err)
	}
	if n := len(imports.Items); n < 2 || n > all {
		t.Errorf("%d services are imported, of %d that don't fit and one that does", n, all)
	}
}

// What is left out is reported when it begins and when it ends.
func TestLeavingOutIsReported(t *testing.T) {
	recorder := events.NewFakeRecorder(10)
	report := overQuota(logr.Discard(), recorder, 48<<20)
	report("lyon", true)
	if said := <-recorder.Events; !strings.HasPrefix(said, "Warning TooMuchMemory the records of cluster lyon take more than 48 MiB here;") {
		t.Errorf("the Event says %q", said)
	}
	if left := testutil.ToFloat64(leftOutGauge.WithLabelValues("lyon")); left != 1 {
		t.Errorf("the metric is %v", left)
	}
	report("lyon", false)
	if left := testutil.ToFloat64(leftOutGauge.WithLabelValues("lyon")); left != 0 || len(recorder.Events) > 0 {
		t.Errorf("once all fit again, the metric is %v, and there are %d more Events", left, len(recorder.Events))
	}
}
