package index

import "slices"

// Service is everything known of one service and what it comes to. It is immutable once it is part of a Snapshot.
type Service struct {
	key ServiceKey

	// The inputs, kept so that a change of one of them rebuilds the service from all.
	imported *ServiceImport
	slices   []*EndpointSlice
	global   *GlobalService

	mcs, fabdns View
}

// View is what a service is under one dialect: a fixed address, or endpoints that were ranked. At most one field is set;
// where none is, the service does not exist.
type View struct {
	// VIP has the ClusterSetIPs, served whatever the readiness behind them.
	VIP *ServiceImport
	// Set has ranked endpoints.
	Set *Set
}

// Exists reports whether the dialect has the service at all.
func (v View) Exists() bool { return v.VIP != nil || v.Set != nil }

// Addrs returns the addresses at the service's own name.
func (v View) Addrs() Addrs {
	switch {
	case v.VIP != nil:
		return v.VIP.IPs
	case v.Set != nil:
		return v.Set.Addrs
	default:
		return nil
	}
}

// Key returns the service's key.
func (s *Service) Key() ServiceKey { return s.key }

// MCS returns the service as the Multi-Cluster Services API sees it: its ServiceImport, or for want of one, or of its
// ClusterSetIPs, its GlobalService.
func (s *Service) MCS() View { return s.mcs }

// Global returns the service as FabDNS sees it: its GlobalService, or for want of one its ServiceImport.
func (s *Service) Global() View { return s.fabdns }

// Inputs returns the objects that the service was built from, each nil or empty where there is none.
func (s *Service) Inputs() (*ServiceImport, []*EndpointSlice, *GlobalService) {
	return s.imported, s.slices, s.global
}

func (s *Service) exists() bool { return s.imported != nil || s.global != nil }

func (s *Service) empty() bool { return !s.exists() && len(s.slices) == 0 }

// build derives the views from the inputs.
func (s *Service) build(r *ranker) {
	s.mcs, s.fabdns = View{}, View{}
	if s.global != nil {
		s.fabdns = View{Set: r.rank(s.key, s.global.Headless, s.global.Ports, s.global.Groups)}
	}
	switch {
	case s.imported == nil:
		s.mcs = s.fabdns
	case s.imported.Headless:
		groups := make([]Group, len(s.slices))
		for i, slice := range s.slices {
			groups[i] = slice.Group
		}
		s.mcs = View{Set: r.rank(s.key, true, s.imported.Ports, groups)}
	case len(s.imported.IPs) == 0 && s.global != nil:
		s.mcs = s.fabdns
	default:
		s.mcs = View{VIP: s.imported}
	}
	if s.global == nil {
		s.fabdns = s.mcs
	}
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

// equal reports whether queries get the same from both.
func (v View) equal(o View) bool {
	switch {
	case v.VIP != nil && o.VIP != nil:
		return v.VIP == o.VIP || slices.Equal(v.VIP.IPs, o.VIP.IPs) &&
			slices.EqualFunc(servicePorts(v.VIP.Ports), servicePorts(o.VIP.Ports), PortTargets.equal)
	case v.Set != nil && o.Set != nil:
		return v.Set == o.Set || v.Set.equal(o.Set)
	default:
		return !v.Exists() && !o.Exists()
	}
}
