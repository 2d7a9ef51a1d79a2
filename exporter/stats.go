package exporter

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// state of a ServiceExport, a label value of clusterset_exporter_services.
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

// stats keeps the gauges. Each reconcile replaces its key's entry, so no pass over everything is needed.
type stats struct {
	mu      sync.Mutex
	entries map[types.NamespacedName]entry
}

// record replaces a key's entry. An entry without a state removes it.
func (s *stats) record(key types.NamespacedName, now entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was, counted := s.entries[key]
	if counted {
		metricServices.WithLabelValues(string(was.state)).Dec()
	}
	if now.state == "" {
		delete(s.entries, key)
	} else {
		if s.entries == nil {
			s.entries = make(map[types.NamespacedName]entry)
		}
		s.entries[key] = now
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
