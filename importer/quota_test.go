package importer

import (
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/client-go/tools/events"
)

// What is left out is reported when it begins and when it ends, by an Event and a metric that name the cluster. Rule C58 of
// docs/spec/control-plane.md.
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
