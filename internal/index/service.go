package index

import (
	"slices"

	"github.com/clusterset/clusterset/internal/topology"
)

// Service is everything known about one service and the Sets built from it. It is immutable once it is part of a Snapshot.
type Service struct {
	key ServiceKey

	// The inputs, kept so that a change of one rebuilds the service from all of them.
	imported *ServiceImport
	slices   []*EndpointSlice
	global   *GlobalService

	sets  [dialects]*Set // nil if the service doesn't exist
	tally *tally         // handed on from one state to the next; nil until a Set is ranked
}

// Key returns the service's key.
func (s *Service) Key() ServiceKey { return s.key }

// Set returns the service's Set in a dialect. MCS uses the ServiceImport. If there is no import, or it has no ClusterSetIP yet, MCS uses
// the GlobalService; if another implementation never assigns a ClusterSetIP, it uses the import's EndpointSlices. Global uses the
// GlobalService, or the ServiceImport if there is none.
func (s *Service) Set(d Dialect) *Set { return s.sets[d] }

// Inputs returns the objects that the service was built from. Each is nil or empty if there is none.
func (s *Service) Inputs() (*ServiceImport, []*EndpointSlice, *GlobalService) {
	return s.imported, s.slices, s.global
}

func (s *Service) exists() bool { return s.imported != nil || s.global != nil }

func (s *Service) empty() bool { return !s.exists() && len(s.slices) == 0 }

// Policy returns the policy of the object that answers in a dialect.
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
	case len(s.imported.IPs) == 0 && !s.imported.FromImporter:
		// By default Submariner's Lighthouse assigns no ClusterSetIPs: its slices have the exporting clusters' ClusterIPs.
		mcs = r.rank(s.ranked(SourceEndpointSlices))
	default:
		mcs = clusterSetIPs(s.imported)
	}
	if s.global == nil {
		global = mcs
	}
	s.sets = [...]*Set{MCS: mcs, Global: global}
	for _, set := range s.sets {
		if set != nil && set.Source != SourceClusterSetIPs {
			if s.tally == nil {
				s.tally = &tally{}
			}
			set.tally = s.tally
		}
	}
}

// portsDiffer reports whether some endpoints have other ports than their service.
func portsDiffer(service []Port, groups []Group) bool {
	for i := range groups {
		if ports := groups[i].Ports; len(ports) != len(service) || len(ports) > 0 && &ports[0] != &service[0] && !slices.Equal(ports, service) {
			return true
		}
	}
	return false
}

// withoutClusters returns a ClusterIP service for MCS, which has no names below the service that SRV records could point to
// (specification 2.3.4).
func (s *Set) withoutClusters(declared []Port) *Set {
	c := *s
	c.HostWeights = nil
	c.Ports, c.Targets = servicePorts(declared)
	return &c
}

// clusterSetIPs returns the Set of a service that kube-proxy balances. Its addresses are served whether or not the endpoints behind them
// are ready.
func clusterSetIPs(o *ServiceImport) *Set {
	s := &Set{Source: SourceClusterSetIPs, Live: true, Addrs: o.IPs}
	s.Ports, s.Targets = servicePorts(o.Ports)
	return s
}

// ranked returns the input from which a Set of that source is ranked. For a ServiceImport the ClusterSetIPs stand for the endpoints of
// its slices.
func (s *Service) ranked(source Source) rankable {
	if source == SourceGlobalService {
		g := s.global
		return rankable{s, source, g.Policy, g.Headless, g.Ports, g.Groups}
	}
	groups := make([]Group, len(s.slices))
	for i, slice := range s.slices {
		groups[i] = slice.Group
	}
	headless := s.imported.Headless || source == SourceClusterSetIPs // the endpoints behind them are no ClusterIPs
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

// sameAnswers reports whether all queries get the same answers from s and old.
func (s *Service) sameAnswers(old *Service) bool {
	return s.sets[MCS].equal(old.sets[MCS]) && s.sets[Global].equal(old.sets[Global])
}
