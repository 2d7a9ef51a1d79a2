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
	// VanishedGrace is how long what a record stood for outlives it where its exporter didn't withdraw it. An exporter that
	// runs writes such a record anew within a second or two.
	VanishedGrace = 10 * time.Second
	// unseenGrace is the same where our watch of the hub was broken meanwhile. Then the hub was away for all, most likely, and
	// came back from a backup: an exporter learns that with its next heartbeat, 10 s later at most, and writes what is missing.
	unseenGrace = 20 * time.Second
	// rememberedFor is how long a departure is. By then what the record stood for is gone, unless the local API server is away.
	rememberedFor = time.Minute
)

// Part is what can be missing of a service: all that one cluster exports of it, or, where Slice isn't empty, the one
// ExportedEndpoints that became the EndpointSlice of that name.
type Part struct {
	Service types.NamespacedName
	Cluster string
	Slice   string
}

// departure is how a record went.
type departure struct {
	at time.Time
	// withdrawn: its own exporter deleted it (api.AnnotationWithdrawn).
	withdrawn bool
	// unseen: it was gone when our watch came back.
	unseen bool
}

// Departures remembers how records went, which is the one thing that only an event tells. Missing one costs a delay, no
// more.
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

// grace returns for how long the part is to be kept. What was withdrawn with its service was withdrawn itself.
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

// Noting wraps a handler of records so that a departure is known before the service is worked on.
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

// PartOf returns what is missing of a service when the record is.
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
