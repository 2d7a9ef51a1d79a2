package exporter

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// state of a ServiceExport, as clusterset_exporter_services counts them.
type state string

const (
	stateExported state = "exported"
	stateRefused  state = "refused"
	stateFailed   state = "failed"
	statePending  state = "pending"
	stateHeld     state = "held"
)

// entry is what one service adds to the gauges.
type entry struct {
	state     state
	endpoints int
	leftOut   int
	conflict  bool
}

// census keeps the gauges: each reconcile replaces what its key had added, so that they need no pass over everything.
type census struct {
	mu      sync.Mutex
	entries map[types.NamespacedName]entry
}

// record replaces a key's entry; an entry without a state removes it.
func (c *census) record(key types.NamespacedName, now entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	was, counted := c.entries[key]
	if counted {
		metricServices.WithLabelValues(string(was.state)).Dec()
	}
	if now.state == "" {
		delete(c.entries, key)
	} else {
		if c.entries == nil {
			c.entries = make(map[types.NamespacedName]entry)
		}
		c.entries[key] = now
		metricServices.WithLabelValues(string(now.state)).Inc()
	}
	metricEndpoints.Add(float64(now.endpoints - was.endpoints))
	metricLeftOut.Add(float64(now.leftOut - was.leftOut))
	switch {
	case now.conflict && !was.conflict:
		metricConflicts.Inc()
	case was.conflict && !now.conflict:
		metricConflicts.Dec()
	}
}
