package version

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
)

// Metric returns the gauge <namespace>_build_info. It is 1, and its labels say what runs.
func Metric(namespace string) prometheus.Collector {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: namespace, Name: "build_info",
		Help: "Always 1. The labels are the versions of clusterset and Go.",
	}, []string{"version", "goversion"})
	g.WithLabelValues(String(), runtime.Version()).Set(1)
	return g
}
