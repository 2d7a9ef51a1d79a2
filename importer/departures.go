package importer

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

const (
	// vanishedGrace is how long what a record stood for outlives it where its exporter didn't withdraw it. An exporter that
	// runs writes such a record anew within a second or two.
	vanishedGrace = 10 * time.Second
	// unseenGrace is the same where our watch of the hub was broken meanwhile. Then the hub was away for all, most likely, and
	// came back from a backup: an exporter learns that with its next heartbeat, 10 s later at most, and writes what is missing.
	unseenGrace = 20 * time.Second
	// rememberedFor is how long a departure is. By then what the record stood for is gone, unless the local API server is away.
	rememberedFor = time.Minute
)

// part is what can be missing of a service: all that one cluster exports of it, or, where slice isn't empty, the one
// ExportedEndpoints that became the EndpointSlice of that name.
type part struct {
	service types.NamespacedName
	cluster string
	slice   string
}

// departure is how a record went.
type departure struct {
	at time.Time
	// withdrawn: its own exporter deleted it (api.AnnotationWithdrawn).
	withdrawn bool
	// unseen: it was gone when our watch came back.
	unseen bool
}

// departures remembers how records went, which is the one thing that only an event tells. Missing one costs a delay, no
// more.
type departures struct {
	clock clock.PassiveClock

	mu     sync.Mutex
	of     map[part]departure
	pruned time.Time
}

func newDepartures(c clock.PassiveClock) *departures {
	return &departures{clock: c, of: map[part]departure{}}
}

func (d *departures) note(p part, withdrawn, unseen bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.clock.Now()
	if now.Sub(d.pruned) > rememberedFor {
		d.pruned = now
		for p, left := range d.of {
			if now.Sub(left.at) > rememberedFor {
				delete(d.of, p)
			}
		}
	}
	d.of[p] = departure{now, withdrawn, unseen}
}

// grace returns for how long the part is to be kept. What was withdrawn with its service was withdrawn itself.
func (d *departures) grace(p part) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	grace := vanishedGrace
	for _, p := range []part{p, {service: p.service, cluster: p.cluster}} {
		left, ok := d.of[p]
		switch {
		case !ok || d.clock.Since(left.at) > rememberedFor:
		case left.withdrawn:
			return 0
		case left.unseen:
			grace = unseenGrace
		}
	}
	return grace
}

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// noting wraps a handler of records so that a departure is known before the service is worked on.
type noting struct {
	handler.EventHandler
	departures *departures
}

// Delete implements handler.EventHandler.
func (n noting) Delete(ctx context.Context, e event.DeleteEvent, q queue) {
	if p, ok := partOf(e.Object); ok {
		_, withdrawn := e.Object.GetAnnotations()[api.AnnotationWithdrawn]
		n.departures.note(p, withdrawn, e.DeleteStateUnknown)
	}
	n.EventHandler.Delete(ctx, e, q)
}

// partOf returns what is missing of a service when the record is.
func partOf(record client.Object) (part, bool) {
	cluster, ok := api.ClusterOfNamespace(record.GetNamespace())
	service, known := serviceOf(record)
	if !ok || !known {
		return part{}, false
	}
	p := part{service: service, cluster: cluster}
	if _, endpoints := record.(*clustersetv1alpha1.ExportedEndpoints); endpoints {
		p.slice = sliceName(cluster, service.Name, record.GetName())
	}
	return p, true
}
