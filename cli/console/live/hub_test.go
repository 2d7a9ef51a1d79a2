package live

import (
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/cli/view"
)

// Whom each cluster can't reach is passed on when that changes, and only then.
func TestWhatLeasesSayIsPassedOn(t *testing.T) {
	h := &Hub{changed: make(chan struct{}, 1)}
	news := func(heard map[string]view.Heartbeat) bool {
		h.reach(heard)
		select {
		case <-h.changed:
			return true
		default:
			return false
		}
	}
	cut := map[string]view.Heartbeat{"a": {CantReach: []string{"b", "c"}}, "b": {Measures: true}}
	if !news(cut) || news(cut) {
		t.Error("want one change")
	}
	if len(h.leases) != 1 {
		t.Fatalf("it has %v", h.leases)
	}
	lease, is := h.leases[0].(*coordinationv1.Lease)
	if !is || lease.Namespace != api.MemberNamespace("a") || lease.Name != api.HeartbeatLease || lease.Annotations[api.AnnotationUnreachable] != "b,c" {
		t.Errorf("it has %v", h.leases)
	}
	if !news(map[string]view.Heartbeat{"a": {}}) || len(h.leases) != 0 || news(nil) {
		t.Errorf("it is reached again, and there is %v", h.leases)
	}
}
