package live

import (
	"slices"
	"testing"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/view"
)

// Whom each cluster can't reach is passed on when that changes, and only then.
func TestWhatReportsSayIsPassedOn(t *testing.T) {
	h := &Hub{}
	news := func(heard map[string]view.Heartbeat) bool {
		h.reach(heard)
		return h.changed.Swap(false)
	}
	cut := map[string]view.Heartbeat{"a": {CantReach: []string{"b", "c"}}, "b": {Measures: true}}
	if !news(cut) || news(cut) {
		t.Error("want one change")
	}
	if len(h.reports) != 1 {
		t.Fatalf("it has %v", h.reports)
	}
	report, is := h.reports[0].(*clustersetv1alpha1.MemberReport)
	if !is || report.Namespace != api.MemberNamespace("a") || !slices.Equal(report.Spec.Unreachable, []string{"b", "c"}) {
		t.Errorf("it has %v", h.reports)
	}
	if !news(map[string]view.Heartbeat{"a": {}}) || len(h.reports) != 0 || news(nil) {
		t.Errorf("it is reached again, and there is %v", h.reports)
	}
}
