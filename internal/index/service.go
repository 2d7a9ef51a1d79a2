package index

import (
	"slices"

	"github.com/clusterset/clusterset/internal/topology"
)

// Service is everything known of one service and what it comes to. It is immutable once it is part of a Snapshot.
type Service struct {
	key ServiceKey

	// The inputs, kept so that a change of one of them rebuilds the service from all.
	imported *ServiceImport
	slices   []*EndpointSlice
	global   *GlobalService

	sets [dialects]*Set // nil where the service does not exist
}

// Key returns the service's key.
func (s *Service) Key() ServiceKey { return s.key }

// Set returns what the service comes to in a dialect. For MCS its ServiceImport counts, or its GlobalService where there is no
// import or the import has no ClusterSetIP yet, or the import's EndpointSlices where another implementation gives none; for Global its GlobalService, or its ServiceImport where there is none.
func (s *Service) Set(d Dialect) *Set { return s.sets[d] }

// Inputs returns the objects that the service was built from, each nil or empty where there is none.
func (s *Service) Inputs() (*ServiceImport, []*EndpointSlice, *GlobalService) {
	return s.imported, s.slices, s.global
}

func (s *Service) exists() bool { return s.imported != nil || s.global != nil }

func (s *Service) empty() bool { return !s.exists() && len(s.slices) == 0 }

// Policy is what the object that answers in a dialect states of how endpoints are chosen.
func (s *Service) Policy(d Dialect) topology.Policy {
	stated := s.ranked(s.sets[d].Source).policy
	if stated == nil {
		return topology.Policy{}
	}
	return *stated
}

// build derives the Sets from the inputs.
func (s *Service) build(r *ranker) {
	var mcs, global, own *Set
	if s.global != nil {
		global = r.rank(s.ranked(SourceGlobalService))
		if own = global; !s.global.Headless && portsDiffer(s.global.Ports, s.global.Groups) {
			own = global.withoutClusters(s.global.Ports)
		}
	}
	switch {
	case s.imported == nil:
		mcs = own
	case s.imported.Headless:
		mcs = r.rank(s.ranked(SourceEndpointSlices))
	case len(s.imported.IPs) == 0 && s.global != nil:
		mcs = own
	case len(s.imported.IPs) == 0 && !s.imported.Ours:
		// Submariner's Lighthouse, by default, has no ClusterSetIPs: its slices carry the exporters' ClusterIPs.
		mcs = r.rank(s.ranked(SourceEndpointSlices))
	default:
		mcs = clusterSetIPs(s.imported)
	}
	if s.global == nil {
		global = mcs
	}
	s.sets = [...]*Set{MCS: mcs, Global: global}
}

// portsDiffer reports whether some endpoints don't have the ports of their service.
func portsDiffer(service []Port, groups []Group) bool {
	for i := range groups {
		if ports := groups[i].Ports; len(ports) != len(service) || len(ports) > 0 && &ports[0] != &service[0] && !slices.Equal(ports, service) {
			return true
		}
	}
	return false
}

// withoutClusters returns a ClusterIP service as MCS has it, where nothing lies below its name that SRV records could point at
// (specification 2.3.4).
func (s *Set) withoutClusters(declared []Port) *Set {
	c := *s
	c.HostWeights = nil
	c.Ports, c.Targets = servicePorts(declared)
	return &c
}

// clusterSetIPs is the Set of a service that kube-proxy balances: its addresses are served whatever the readiness of the
// endpoints behind them.
func clusterSetIPs(o *ServiceImport) *Set {
	s := &Set{Source: SourceClusterSetIPs, Live: true, Addrs: o.IPs}
	s.Ports, s.Targets = servicePorts(o.Ports)
	return s
}

// ranked returns what a Set of that source is ranked from. Where that is the ServiceImport, its ClusterSetIPs stand for the
// endpoints of its slices.
func (s *Service) ranked(source Source) rankable {
	if source == SourceGlobalService {
		g := s.global
		return rankable{s, source, g.Policy, g.Headless, g.Ports, g.Groups}
	}
	groups := make([]Group, len(s.slices))
	for i, slice := range s.slices {
		groups[i] = slice.Group
	}
	headless := s.imported.Headless || source == SourceClusterSetIPs // what is behind them is no ClusterIP
	return rankable{s, source, s.imported.Policy, headless, s.imported.Ports, groups}
}

// uses reports whether the service has endpoints of any of the clusters.
func (s *Service) uses(clusters map[string]bool) bool {
	for _, slice := range s.slices {
		if clusters[slice.Cluster] {
			return true
		}
	}
	return s.global != nil && slices.ContainsFunc(s.global.Groups, func(g Group) bool { return clusters[g.Cluster] })
}

// sameAnswers reports whether no query can tell s from old.
func (s *Service) sameAnswers(old *Service) bool {
	return s.sets[MCS].equal(old.sets[MCS]) && s.sets[Global].equal(old.sets[Global])
}
