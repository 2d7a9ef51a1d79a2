package retention

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
)

const (
	// rememberedFor is how long a departure is remembered. By then the record's objects are deleted, unless the local API
	// server is unreachable.
	rememberedFor = time.Minute
)

// Part is a part of a service that can be missing: one cluster's whole export or, if Record is set, the one ExportedEndpoints of that
// name.
type Part struct {
	Service types.NamespacedName
	Cluster string
	Record  string
}

// departure is how a record was seen to disappear.
type departure struct {
	at time.Time
	// withdrawn: its own exporter deleted it (api.AnnotationWithdrawn).
	withdrawn bool
}

// Departures remembers how records disappeared, which only an event shows. What isn't in it disappeared unseen, or too long ago: that
// costs a delay.
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

// note records that the part's record is gone, and whether that was seen.
func (d *Departures) note(p Part, withdrawn, seen bool) {
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
	delete(d.of, p)
	if withdrawn || seen {
		d.of[p] = departure{now, withdrawn}
	}
}

// back forgets how a record went that is there again. Else, if the hub lost it within the minute, and the watch of one kind noticed that before
// the other's, it would count as withdrawn.
func (d *Departures) back(p Part) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.of, p)
}

// how returns whether the part's record, or that of its whole service, was withdrawn, and whether its departure was seen.
func (d *Departures) how(p Part) (withdrawn, seen bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, p := range []Part{p, {Service: p.Service, Cluster: p.Cluster}} {
		if left, ok := d.of[p]; ok && d.clock.Since(left.at) <= rememberedFor {
			withdrawn, seen = withdrawn || left.withdrawn, true
		}
	}
	return withdrawn, seen
}

// Note records that a record is gone (is is nil) or back (was is nil). It must be called before the service is reconciled. unseen: nobody saw the
// record go.
func (d *Departures) Note(was, is client.Object, unseen bool) {
	switch {
	case was == nil:
		if p, ok := partOf(is); ok {
			d.back(p)
		}
	case is == nil:
		if p, ok := partOf(was); ok {
			_, withdrawn := was.GetAnnotations()[api.AnnotationWithdrawn]
			d.note(p, withdrawn, !unseen)
		}
	}
}

// partOf returns the part that is missing if the record is.
func partOf(record client.Object) (Part, bool) {
	cluster, ok := api.ClusterOfNamespace(record.GetNamespace())
	service, known := desired.ServiceOf(record)
	if !ok || !known {
		return Part{}, false
	}
	p := Part{Service: service, Cluster: cluster}
	if _, endpoints := record.(*clustersetv1alpha1.ExportedEndpoints); endpoints {
		p.Record = record.GetName()
	}
	return p, true
}
