package importer

import (
	"context"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
)

// nodesTimeout is how long the start waits for the nodes. Names and addresses must work even without the right to read nodes.
const nodesTimeout = 10 * time.Second

// awaitNodes waits until the nodes are known, or for nodesTimeout. From now on places has an event when they are in other places, and while
// external addresses of other networks' clusters are looked at, also when they have other addresses (D82).
func (i *importer) awaitNodes(ctx context.Context, places chan<- event.GenericEvent, external *atomic.Bool) {
	var had []netip.Addr
	i.options.Nodes.OnChange(func(_ context.Context, moved bool) {
		has := i.options.Nodes.IPs()
		others := !slices.Equal(had, has)
		had = has
		if !moved && (!others || !external.Load()) {
			return
		}
		select {
		case places <- event.GenericEvent{Object: &corev1.Node{}}:
		default: // an event is queued already, and its reconcile will see the latest state
		}
	})
	select {
	case <-ctx.Done():
	case <-i.options.Nodes.Known():
	case <-time.After(nodesTimeout):
		logf.FromContext(ctx).Info("Can't read this cluster's nodes: the account needs the right to get, list and watch them. " +
			"Until then endpoints behind ClusterSetIPs are ranked from this cluster's location, not from each node's zone")
	}
}
