package index

import "slices"

// Service is everything known of one service and what it comes to. It is immutable once it is part of a Snapshot.
type Service struct {
	key ServiceKey

	// The inputs, kept so that a change of one of them rebuilds the service from all.
	imported *ServiceImport
	slices   []*EndpointSlice
	global   *GlobalService

	mcs, fabdns *Set // nil where the service does not exist
}

// Key returns the service's key.
func (s *Service) Key() ServiceKey { return s.key }

// MCS returns the service as the Multi-Cluster Services API sees it: its ServiceImport, or its GlobalService where there is no
// import or the import has no ClusterSetIP yet.
func (s *Service) MCS() *Set { return s.mcs }

// Global returns the service as FabDNS sees it: its GlobalService, or its ServiceImport where there is none.
func (s *Service) Global() *Set { return s.fabdns }

// Inputs returns the objects that the service was built from, each nil or empty where there is none.
func (s *Service) Inputs() (*ServiceImport, []*EndpointSlice, *GlobalService) {
	return s.imported, s.slices, s.global
}

func (s *Service) exists() bool { return s.imported != nil || s.global != nil }

func (s *Service) empty() bool { return !s.exists() && len(s.slices) == 0 }

// build derives the Sets from the inputs.
func (s *Service) build(r *ranker) {
	s.mcs, s.fabdns = nil, nil
	if s.global != nil {
		s.fabdns = r.rank(s.key, SourceGlobalService, s.global.Headless, s.global.Ports, s.global.Groups)
	}
	switch {
	case s.imported == nil:
		s.mcs = s.fabdns
	case s.imported.Headless:
		s.mcs = r.rank(s.key, SourceEndpointSlices, true, s.imported.Ports, s.groups())
	case len(s.imported.IPs) == 0 && s.global != nil:
		s.mcs = s.fabdns
	default:
		s.mcs = clusterSetIPs(s.imported)
	}
	if s.global == nil {
		s.fabdns = s.mcs
	}
}

// clusterSetIPs is the Set of a service that kube-proxy balances: its addresses are served whatever the readiness of the
// endpoints behind them.
func clusterSetIPs(o *ServiceImport) *Set {
	s := &Set{Source: SourceClusterSetIPs, Live: true, Addrs: o.IPs, Ports: servicePorts(o.Ports)}
	s.Targets = union(s.Ports)
	return s
}

// groups lists the endpoints of the service's EndpointSlices.
func (s *Service) groups() []Group {
	groups := make([]Group, len(s.slices))
	for i, slice := range s.slices {
		groups[i] = slice.Group
	}
	return groups
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
	return s.mcs.equal(old.mcs) && s.fabdns.equal(old.fabdns)
}
