package hold

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
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/internal/hubwatch"
)

const (
	// VanishedGrace is how long the objects of a record are kept after the record is gone, if its exporter didn't withdraw it.
	// A running exporter rewrites such a record within a second or two.
	VanishedGrace = 10 * time.Second
	// unseenGrace is the same if the importer's watch of the hub was interrupted meanwhile. Then the hub was probably
	// unreachable for all members, and restored from a backup. An exporter finds that out with its next heartbeat, at most 10 s
	// later, and writes the missing records.
	unseenGrace = 20 * time.Second
	// rememberedFor is how long a departure is remembered. By then the record's objects are deleted, unless the local API
	// server is unreachable.
	rememberedFor = time.Minute
)

// Part is a part of a service that can be missing: one cluster's whole export or, if Slice is set, the one ExportedEndpoints
// behind the EndpointSlice of that name.
type Part struct {
	Service types.NamespacedName
	Cluster string
	Slice   string
}

// departure is how a record disappeared.
type departure struct {
	at time.Time
	// withdrawn: its own exporter deleted it (api.AnnotationWithdrawn).
	withdrawn bool
	// unseen: it was missing when the watch was re-established.
	unseen bool
}

// Departures remembers how records disappeared, which only an event shows. Missing an event costs only a delay.
type Departures struct {
	clock clock.PassiveClock

	mu     sync.Mutex
	of     map[Part]departure
	pruned time.Time
}

// NewDepartures returns an empty memory.
func NewDepartures(c clock.PassiveClock) *Departures {
	return &Departures{clock: c, of: map[Part]departure{}}
}

func (d *Departures) note(p Part, withdrawn, unseen bool) {
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

// grace returns how long the part is to be kept. A part is also withdrawn if its service was.
func (d *Departures) grace(p Part) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	grace := VanishedGrace
	for _, p := range []Part{p, {Service: p.Service, Cluster: p.Cluster}} {
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

// Noting wraps a handler of records, so that a departure is recorded before the service is reconciled.
type Noting struct {
	handler.EventHandler
	Departures *Departures
}

// Delete implements handler.EventHandler.
func (n Noting) Delete(ctx context.Context, e event.DeleteEvent, q queue) {
	if p, ok := PartOf(e.Object); ok {
		_, withdrawn := e.Object.GetAnnotations()[api.AnnotationWithdrawn]
		n.Departures.note(p, withdrawn, e.DeleteStateUnknown || hubwatch.Unseen(e.Object))
	}
	n.EventHandler.Delete(ctx, e, q)
}

// PartOf returns the part that is missing if the record is.
func PartOf(record client.Object) (Part, bool) {
	cluster, ok := api.ClusterOfNamespace(record.GetNamespace())
	service, known := desired.ServiceOf(record)
	if !ok || !known {
		return Part{}, false
	}
	p := Part{Service: service, Cluster: cluster}
	if _, endpoints := record.(*clustersetv1alpha1.ExportedEndpoints); endpoints {
		p.Slice = desired.SliceName(cluster, service.Name, record.GetName())
	}
	return p, true
}
