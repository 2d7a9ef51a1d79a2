package index

import (
	"sync/atomic"

	"github.com/clusterset/clusterset/internal/topology"
)

// AnswerTier is how far an answer leads, as it is counted: a topology.Tier, or one of those below.
type AnswerTier uint8

// Those that are no topology.Tier.
const (
	Degraded    = AnswerTier(topology.Cluster) + 1 + iota // only Suspect, drained or unreachable clusters were left
	VIP                                                   // a ClusterSetIP, behind which kube-proxy chooses
	AnswerTiers                                           // how many there are
)

// String returns the value of metric labels.
func (t AnswerTier) String() string {
	if t < Degraded {
		return topology.Tier(t).String()
	}
	return [...]string{"degraded", "vip"}[t-Degraded]
}

// AnswerTier returns that of an answer at the service's own name.
func (s *Set) AnswerTier() AnswerTier {
	switch {
	case s.Source == SourceClusterSetIPs:
		return VIP
	case s.Degraded:
		return Degraded
	}
	return AnswerTier(s.Tier)
}

// tally counts a service's answers, but those with a ClusterSetIP. It outlives the Sets, so that a query adds to it without looking it up.
type tally [VIP]atomic.Uint64

// Count counts an answer at the service's own name, and returns its AnswerTier.
func (s *Set) Count() AnswerTier {
	t := s.AnswerTier()
	if t != VIP {
		s.tally[t].Add(1)
	}
	return t
}

// TakeAnswers calls f with the answers of services that no call has taken yet.
func (s *Snapshot) TakeAnswers(f func(key ServiceKey, tier AnswerTier, n float64)) {
	s.services.root.all(func(svc *Service) bool {
		for t := range VIP {
			if svc.tally != nil && svc.exists() && svc.tally[t].Load() > 0 {
				f(svc.key, t, float64(svc.tally[t].Swap(0)))
			}
		}
		return true
	})
}
