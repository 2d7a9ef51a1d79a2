package live

import (
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/cli/view"
)

// Whom each cluster can't reach is passed on when that changes, and only then.
func TestWhatLeasesSayIsPassedOn(t *testing.T) {
	h := &Hub{objects: map[objectKey]runtime.Object{}, changed: make(chan struct{}, 1)}
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
	lease, _ := h.objects[objectKey{kindLease, client.ObjectKey{Namespace: api.MemberNamespace("a"), Name: api.HeartbeatLease}}].(*coordinationv1.Lease)
	if len(h.objects) != 1 || lease == nil || lease.Annotations[api.AnnotationUnreachable] != "b,c" {
		t.Errorf("it has %v", h.objects)
	}
	if !news(map[string]view.Heartbeat{"a": {}}) || len(h.objects) != 0 || news(nil) {
		t.Errorf("it is reached again, and there is %v", h.objects)
	}
}
