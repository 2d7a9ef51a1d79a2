package exporter

// state of a ServiceExport, a label value of clusterset_exporter_services.
type state string

const (
	stateExported state = "exported"
	stateRefused  state = "refused"
	stateFailed   state = "failed"
	statePending  state = "pending"
	stateHeld     state = "held"
)

// entry is what one service adds to the gauges. Each reconcile replaces it, so no pass over everything is needed.
type entry struct {
	state     state
	endpoints int
	leftOut   int
	conflict  bool
}

// replace replaces it in the gauges. An entry without a state removes it.
func (e *entry) replace(now entry) {
	was := *e
	*e = now
	if was.state != "" {
		metricServices.WithLabelValues(string(was.state)).Dec()
	}
	if now.state != "" {
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
