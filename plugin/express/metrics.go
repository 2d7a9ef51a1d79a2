package express

import (
	"github.com/coredns/coredns/plugin"
	"github.com/prometheus/client_golang/prometheus"
)

var (
	enabled = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: plugin.Namespace, Subsystem: "clusterset", Name: "express_enabled",
		Help: "1 for a server that answers queries over UDP on the express path where possible, 0 for one that doesn't; the log then says why.",
	}, []string{"server"})

	answersTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: plugin.Namespace, Subsystem: "clusterset", Name: "express_answers_total",
		Help: "Queries that the express path answered. They are also counted as all queries are.",
	}, []string{"server"})
)

// Collectors are the express path's metrics.
func Collectors() []prometheus.Collector { return []prometheus.Collector{enabled, answersTotal} }
