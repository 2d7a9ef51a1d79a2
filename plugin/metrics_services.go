package clusterset

import (
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clusterset/clusterset/internal/index"
)

const maxCountedServices = 500 // have series of their own

// serviceAnswers has the answers by service. Queries count in the index; it takes the numbers from there when metrics are read.
type serviceAnswers struct {
	*prometheus.CounterVec
	sources func() []*source

	mu     sync.Mutex
	listed map[index.ServiceKey]bool // those that have
}

func newServiceAnswers(sources func() []*source) *serviceAnswers {
	a := &serviceAnswers{sources: sources, listed: map[index.ServiceKey]bool{}}
	a.CounterVec = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: prefix + "service_answers_total",
		Help: "Those without vip, by service: of the first 500 that are asked for and, with empty labels, of all others. Those of deleted services go.",
	}, []string{"service_namespace", "service_name", "tier"}) // Prometheus has its own label namespace, that of the server
	for tier := range index.VIP {
		a.WithLabelValues("", "", tier.String())
	}
	return a
}

// Collect implements prometheus.Collector.
func (a *serviceAnswers) Collect(to chan<- prometheus.Metric) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var snapshots []*index.Snapshot
	for _, s := range a.sources() {
		for _, x := range s.indexes {
			if now := x.Snapshot(); now != nil {
				snapshots = append(snapshots, now)
			}
		}
	}
	for key := range a.listed {
		if !slices.ContainsFunc(snapshots, func(s *index.Snapshot) bool { return s.Service(string(key)) != nil }) {
			delete(a.listed, key)
			a.DeletePartialMatch(prometheus.Labels{"service_namespace": key.Namespace(), "service_name": key.Name()})
		}
	}
	for _, s := range snapshots {
		s.TakeAnswers(func(key index.ServiceKey, tier index.AnswerTier, n float64) {
			if !a.listed[key] && len(a.listed) == maxCountedServices {
				key = ""
			} else {
				a.listed[key] = true
			}
			a.WithLabelValues(key.Namespace(), key.Name(), tier.String()).Add(n)
		})
	}
	a.CounterVec.Collect(to)
}
