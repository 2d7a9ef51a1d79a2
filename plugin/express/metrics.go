package express

import (
	"github.com/coredns/coredns/plugin"
	"github.com/prometheus/client_golang/prometheus"
)

var (
	enabled = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: plugin.Namespace, Subsystem: "clusterset", Name: "express_enabled",
		Help: "1 for a server that answers queries on the express path where possible, 0 for one that doesn't; the log then says why.",
	}, []string{"server"})

	zonesEnabled = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: plugin.Namespace, Subsystem: "clusterset", Name: "express_zone_enabled",
		Help: "1 for each zone that the express path of a server answers for: clusterset's, and those of the plugin kubernetes.",
	}, []string{"server", "zone"})

	answersTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: plugin.Namespace, Subsystem: "clusterset", Name: "express_answers_total",
		Help: "Queries that the express path answered. They are also counted as all queries are.",
	}, []string{"server"})
)

// Collectors are the express path's metrics.
func Collectors() []prometheus.Collector {
	return []prometheus.Collector{enabled, zonesEnabled, answersTotal}
}
