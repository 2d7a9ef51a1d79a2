package clusterset

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clusterset/clusterset/internal/index"
)

func (s *source) gauge(kind index.Kind) {
	if len(s.indexes) > 0 {
		objectsGauge.WithLabelValues(s.label, kind.String()).Set(float64(s.indexes[0].Count(kind)))
	}
}

// showWatched sets a kind's source_synced gauge. s.mu is held.
func (s *source) showWatched(kind index.Kind) {
	v := 0.0
	if s.watched[kind] {
		v = 1
	}
	syncedGauge.WithLabelValues(s.label, kind.String()).Set(v)
}

// showMetrics sets the source_synced gauges of all kinds. s.mu is held.
func (s *source) showMetrics() {
	for _, k := range index.Kinds {
		s.showWatched(k)
	}
}

// showStale sets the source_stale gauge to whether an index answers from an earlier state. s.mu is held.
func (s *source) showStale() {
	v := 0.0
	if slices.ContainsFunc(s.indexes, func(x *index.Index) bool { known := x.Snapshot(); return known != nil && known.Stale() }) {
		v = 1
	}
	staleGauge.WithLabelValues(s.label).Set(v)
}

// endMetrics removes the gauges of a source that has ended. If another source with the same label is running, it sets
// the gauges to that source's values: the new server's after a reload, or the old server's if the reload failed.
func (s *source) endMetrics() {
	for _, other := range running() {
		if other.label != s.label {
			continue
		}
		other.mu.Lock()
		other.showMetrics()
		other.showStale()
		other.mu.Unlock()
		for _, k := range index.Kinds {
			other.gauge(k)
		}
		return
	}
	labels := prometheus.Labels{"source": s.label}
	for _, g := range []*prometheus.GaugeVec{objectsGauge, syncedGauge, absentGauge, staleGauge} {
		g.DeletePartialMatch(labels)
	}
}
