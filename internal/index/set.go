package index

import (
	"net/netip"
	"slices"
	"sort"
	"strings"

	"github.com/clusterset/clusterset/internal/topology"
)

// Source is the kind of object that a Set was built from.
type Source uint8

// The sources. With SourceClusterSetIPs nothing was ranked: kube-proxy chooses among the endpoints behind the addresses.
const (
	SourceGlobalService Source = iota
	SourceEndpointSlices
	SourceClusterSetIPs
)

// Set has a service's answers: ranked endpoints, or its ClusterSetIPs. Everything in it is in a fixed order, without
// duplicates, and must not be changed.
type Set struct {
	Source   Source
	Headless bool
	// Live is false if no endpoint of any live cluster is ready. ClusterSetIPs are always live.
	Live bool
	// Tier is the tier of the addresses. Degraded is set if only Suspect, drained or unreachable clusters were left. Both are
	// meaningless if Addrs is empty.
	Tier     topology.Tier
	Degraded bool
	// Addrs are the addresses at the service's own name: those of the best tier, or the ClusterSetIPs.
	Addrs Addrs
	// Weights are the weights of Addrs, by cluster, for replies that can't have all addresses.
	Weights Weights
	// HostWeights are the weights of TargetHosts, 1 to 100, nil if they are all equal.
	HostWeights []uint8
	// Hosts are the endpoints that have a name of their own, of every tier within the boundary, sorted by Key. Only headless
	// services have any.
	Hosts []Host
	// Clusters are the clusters with an endpoint within the boundary, sorted by name.
	Clusters []Host
	// Ports are the named ports.
	Ports []PortTargets
	// Targets is the union of the Ports' targets.
	Targets Targets

	// zonal has the answers to names with a zone in front. It is nil for services that aren't headless.
	zonal *zonal
	tally *tally // the service's; nil for ClusterSetIPs
}

// Addrs are sorted addresses, IPv4 before IPv6.
type Addrs []netip.Addr

// SortAddrs sorts addresses and drops duplicates. It takes ownership of the slice.
func SortAddrs(addrs []netip.Addr) Addrs { return uniq(addrs, netip.Addr.Compare) }

// Split returns the IPv4 and the IPv6 addresses.
func (a Addrs) Split() (v4, v6 Addrs) {
	n := len(a)
	if n > 0 && !a[n-1].Is4() {
		n = sort.Search(n, func(i int) bool { return !a[i].Is4() })
	}
	return a[:n:n], a[n:]
}

// Host is a name below a service with its addresses: an endpoint "<hostname>.<cluster>", or a cluster.
type Host struct {
	Key   string
	Addrs Addrs
}

// PortTargets is a named port with the targets that offer it.
type PortTargets struct {
	Name     string
	Protocol Protocol
	// Targets is empty if no endpoint offers the port.
	Targets Targets
}

// Host returns the endpoint of that key, "<hostname>.<cluster>", or nil.
func (s *Set) Host(key string) *Host { return findHost(s.Hosts, key) }

// TargetHosts returns the hosts that Targets refer to: the Hosts of a headless service, or the Clusters of any other.
func (s *Set) TargetHosts() []Host {
	if s.Headless {
		return s.Hosts
	}
	return s.Clusters
}

// Cluster returns the cluster of that name with its addresses, or nil.
func (s *Set) Cluster(name string) *Host { return findHost(s.Clusters, name) }

func findHost(hosts []Host, key string) *Host {
	i, ok := slices.BinarySearchFunc(hosts, key, func(h Host, key string) int { return strings.Compare(h.Key, key) })
	if !ok {
		return nil
	}
	return &hosts[i]
}

// EmptyNonTerminal reports whether label is a proper suffix of a cluster's dotted name, so that it exists without records.
func (s *Set) EmptyNonTerminal(label string) bool {
	for i := range s.Clusters {
		if name := s.Clusters[i].Key; len(name) > len(label) && name[len(name)-len(label)-1] == '.' && strings.HasSuffix(name, label) {
			return true
		}
	}
	return false
}

// equal reports whether queries get the same answers from both. Answers show neither the source of the addresses nor any
// detail of a headless service that doesn't exist because it has no endpoints.
func (s *Set) equal(o *Set) bool {
	switch {
	case s == o:
		return true
	case s == nil || o == nil:
		return false
	case s.Absent() || o.Absent():
		return s.Absent() && o.Absent()
	}
	return s.Headless == o.Headless &&
		slices.Equal(s.Addrs, o.Addrs) && slices.Equal(s.Weights, o.Weights) && slices.Equal(s.HostWeights, o.HostWeights) && slices.EqualFunc(s.Hosts, o.Hosts, Host.equal) &&
		slices.EqualFunc(s.Clusters, o.Clusters, Host.equal) && slices.EqualFunc(s.Ports, o.Ports, PortTargets.equal) &&
		s.Targets.equal(o.Targets)
}

// Absent reports whether the service doesn't exist in DNS: it is headless and has no ready endpoint in a live cluster
// (KEP-1645, specification 2.4.1).
func (s *Set) Absent() bool { return s.Headless && !s.Live }

func (h Host) equal(o Host) bool { return h.Key == o.Key && slices.Equal(h.Addrs, o.Addrs) }

func (p PortTargets) equal(o PortTargets) bool {
	return p.Name == o.Name && p.Protocol == o.Protocol && p.Targets.equal(o.Targets)
}
