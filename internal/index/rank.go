package index

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/clusterset/clusterset/internal/topology"
)

// maxName is the longest DNS name in text form with its final dot (RFC 1035, 2.3.4).
const maxName = 254

// ranker turns groups of endpoints into a Set, as seen from self.
type ranker struct {
	self     topology.Location
	policy   topology.Policy
	longest  int // Options.LongestZone
	clusters map[string]*Cluster

	// generation tells rankers of other clusters from this one.
	generation uint64
	once       sync.Once
	all        *places
}

// rankable is the input from which a Set is ranked.
type rankable struct {
	service  *Service
	source   Source
	policy   *topology.Policy
	headless bool
	ports    []Port
	groups   []Group
}

// view applies the service's policy, with the server's policy for what the service doesn't state.
func (r *ranker) view(in *rankable) topology.View {
	v := topology.View{Self: r.self, Policy: r.policy}
	if in.policy != nil {
		v.Policy = in.policy.Or(r.policy)
	}
	return v
}

// candidate is an endpoint that may be served: it is ready and its rank is usable.
type candidate struct {
	*Endpoint
	group  *Group
	rank   topology.Rank
	behind int
	host   int32
	weight uint8
	spare  bool
	// elsewhere is set if a port of the service has another number at this address, so that the service's own name doesn't have it (A37).
	elsewhere bool
}

// usualWeight is the default weight of a cluster (MemberCluster, spec.weight).
const usualWeight = 100

// rankOf returns an endpoint's rank, whether it is ready or not.
func (r *ranker) rankOf(v *topology.View, headless bool, group *Group, e *Endpoint, spare bool) topology.Rank {
	at := topology.Endpoint{Cluster: group.Cluster, Zone: e.Zone, Region: group.Region, ClusterIP: !headless, Spare: spare}
	if c := r.clusters[group.Cluster]; c != nil {
		at.Member = &c.Member
	}
	return v.Rank(&at)
}

// shares returns the shares of the clusters whose exports state one: nil for most services.
func (in *rankable) shares() map[string]*topology.Share {
	if in.policy == nil || len(in.policy.Shares) == 0 {
		return nil
	}
	shares := make(map[string]*topology.Share, len(in.policy.Shares))
	for cluster, percent := range in.policy.Shares {
		var ready []netip.Addr
		for i := range in.groups {
			for j := range in.groups[i].Endpoints {
				if e := &in.groups[i].Endpoints[j]; e.Ready && in.groups[i].Cluster == cluster {
					ready = append(ready, e.Addr)
				}
			}
		}
		shares[cluster] = topology.NewShare(percent, ready)
	}
	return shares
}

// Shares returns the shares of the clusters whose exports state one, of the endpoints in the service's slices.
func (s *Service) Shares() map[string]*topology.Share {
	in := s.ranked(SourceEndpointSlices)
	return in.shares()
}

func (r *ranker) rank(in rankable) *Set {
	s := &Set{Source: in.source, Headless: in.headless}
	v := r.view(&in)
	candidates, live := r.candidates(&v, &in)
	s.Live = live
	last := lastOf(&v, candidates, func(i int) bool { return !candidates[i].elsewhere })
	s.Tier, s.Degraded = v.Tier(last), last.Degraded()
	var addrs []netip.Addr
	for i := range candidates {
		if c := &candidates[i]; c.rank <= last && !c.elsewhere {
			addrs = append(addrs, c.Addr)
		}
	}
	s.Addrs = SortAddrs(addrs)
	weighted := r.weigh(candidates)
	if weighted {
		s.Weights = addrWeights(s.Addrs, candidates, last)
	}
	s.Clusters = hostsBy(candidates, func(i int) string { return candidates[i].group.Cluster })
	if in.headless {
		s.zonal = &zonal{}
		r.nameHosts(s, in.service.key, candidates)
		if weighted {
			s.HostWeights = make([]uint8, len(s.Hosts))
			for i := range candidates {
				if c := &candidates[i]; c.host != ServiceItself {
					s.HostWeights[c.host] = c.weight // a host is in one cluster
				}
			}
		}
		s.Ports, s.Targets = hostPorts(&v, in.ports, candidates, s.HostWeights, false, last)
	} else if in.source == SourceGlobalService && portsDiffer(in.ports, in.groups) {
		r.nameClusters(s, in.service.key, candidates, weighted)
		s.Ports, s.Targets = hostPorts(&v, in.ports, candidates, s.HostWeights, true, last)
	} else {
		s.Ports, s.Targets = servicePorts(in.ports)
	}
	return s
}

// candidates returns the endpoints that may be served, and whether any endpoint is ready in a live cluster, inside or outside the
// boundary.
func (r *ranker) candidates(v *topology.View, in *rankable) (candidates []candidate, live bool) {
	n := 0
	for i := range in.groups {
		n += len(in.groups[i].Endpoints)
	}
	var behind map[string]int
	if v.Policy.MinReady > 1 && !in.headless {
		behind = in.service.ReadyIn()
	}
	candidates = make([]candidate, 0, n)
	shares := in.shares()
	for i := range in.groups {
		group := &in.groups[i]
		elsewhere := in.source == SourceGlobalService && !in.headless && group.elsewhere(in.ports)
		for j := range group.Endpoints {
			e := &group.Endpoints[j]
			if !e.Ready {
				continue
			}
			spare := shares[group.Cluster].Spare(e.Addr, !in.headless)
			rank := r.rankOf(v, in.headless, group, e, spare)
			live = live || rank != topology.Gone
			if rank.Usable() {
				candidates = append(candidates, candidate{e, group, rank, behind[group.Cluster], ServiceItself, 0, spare, elsewhere})
			}
		}
	}
	return candidates, live
}

// elsewhere reports whether a port of the service has another number in the group.
func (g *Group) elsewhere(service []Port) bool {
	if len(g.Ports) == 0 || len(service) > 0 && &g.Ports[0] == &service[0] {
		return false
	}
	return slices.ContainsFunc(g.Ports, func(p Port) bool {
		same := func(s Port) bool { return s.Name == p.Name && s.Protocol == p.Protocol }
		return slices.ContainsFunc(service, same) && !slices.Contains(service, p)
	})
}

// weigh sets each candidate's weight to its cluster's, and reports whether the weights differ.
func (r *ranker) weigh(candidates []candidate) (differ bool) {
	for i := range candidates {
		c := &candidates[i]
		c.weight = usualWeight
		if cluster := r.clusters[c.group.Cluster]; cluster != nil && cluster.Weight != 0 {
			c.weight = cluster.Weight
		}
		differ = differ || c.weight != candidates[0].weight
	}
	return differ
}

// addrWeights returns the running sums of the weights of the addresses up to that rank. An address of two clusters has the larger
// weight.
func addrWeights(addrs Addrs, candidates []candidate, last topology.Rank) Weights {
	weights := make(Weights, len(addrs))
	for i := range candidates {
		if c := &candidates[i]; c.rank <= last && !c.elsewhere {
			at, _ := slices.BinarySearchFunc(addrs, c.Addr, netip.Addr.Compare)
			weights[at] = max(weights[at], uint32(c.weight))
		}
	}
	for i := 1; i < len(weights); i++ {
		weights[i] += weights[i-1]
	}
	return weights
}

// lastOf returns the last rank in use among the candidates that are fit, by their numbers.
func lastOf(v *topology.View, candidates []candidate, fit func(i int) bool) topology.Rank {
	return v.Last(len(candidates), func(i int) topology.Ranked {
		if !fit(i) {
			return topology.Ranked{Rank: topology.Gone}
		}
		c := &candidates[i]
		return topology.Ranked{Rank: c.rank, Addr: c.Addr, Behind: c.behind}
	})
}

// ReadyIn counts each cluster's ready endpoints in the service's slices, which are the endpoints behind its ClusterIP. An endpoint
// with an address of each family counts once.
func (s *Service) ReadyIn() map[string]int {
	ready := map[string][]netip.Addr{}
	for _, slice := range s.slices {
		for i := range slice.Endpoints {
			if e := &slice.Endpoints[i]; e.Ready {
				ready[slice.Cluster] = append(ready[slice.Cluster], e.Addr)
			}
		}
	}
	n := make(map[string]int, len(ready))
	for cluster, addrs := range ready {
		v4, v6 := SortAddrs(addrs).Split()
		n[cluster] = max(len(v4), len(v6))
	}
	return n
}

// hostsBy groups the candidates' addresses by name, and omits candidates without a name.
func hostsBy(candidates []candidate, name func(i int) string) []Host {
	type entry struct {
		key  string
		addr netip.Addr
	}
	entries := make([]entry, 0, len(candidates))
	for i := range candidates {
		if key := name(i); key != "" {
			entries = append(entries, entry{key, candidates[i].Addr})
		}
	}
	entries = uniq(entries, func(a, b entry) int {
		return cmp.Or(strings.Compare(a.key, b.key), a.addr.Compare(b.addr))
	})
	if len(entries) == 0 {
		return nil
	}
	names := 1
	addrs := make(Addrs, len(entries)) // one array for all hosts
	for i := range entries {
		addrs[i] = entries[i].addr
		if i > 0 && entries[i].key != entries[i-1].key {
			names++
		}
	}
	hosts := make([]Host, 0, names)
	for from := 0; from < len(entries); {
		to := from + 1
		for to < len(entries) && entries[to].key == entries[from].key {
			to++
		}
		hosts = append(hosts, Host{entries[from].key, addrs[from:to:to]})
		from = to
	}
	return hosts
}

// nameHosts sets Hosts, and each candidate's host.
func (r *ranker) nameHosts(s *Set, key ServiceKey, candidates []candidate) {
	keys := r.hostKeys(key, candidates)
	s.Hosts = hostsBy(candidates, func(i int) string { return keys[i] })
	findHosts(s, keys, candidates)
}

// hostKeys returns the key of each candidate, empty for one that has no name: its address is still served at the service's own name.
func (r *ranker) hostKeys(key ServiceKey, candidates []candidate) []string {
	room := maxName - len(".") - len(key) - len(".svc.") - r.longest
	keys := make([]string, len(candidates))
	for i := range candidates {
		c := &candidates[i]
		hostname := c.Hostname
		if hostname == "" {
			hostname = HostnameOf(c.Addr)
		}
		if c.group.Cluster != "" && len(hostname)+len(".")+len(c.group.Cluster) <= room {
			keys[i] = hostname + "." + c.group.Cluster
		}
	}
	return keys
}

// findHosts sets each candidate's host, by their keys. One that isn't among the Hosts has none.
func findHosts(s *Set, keys []string, candidates []candidate) {
	for i := range candidates {
		at, ok := slices.BinarySearchFunc(s.Hosts, keys[i], func(h Host, key string) int { return strings.Compare(h.Key, key) })
		if ok {
			candidates[i].host = int32(at) //nolint:gosec // an index into a slice of at most some thousand hosts
		}
	}
}

// nameClusters sets each candidate's host to the number of its cluster. In the dialect Global, SRV records of a ClusterIP service
// can point to clusters.
func (r *ranker) nameClusters(s *Set, key ServiceKey, candidates []candidate, weighted bool) {
	room := maxName - len(".") - len(key) - len(".svc.") - r.longest
	if weighted {
		s.HostWeights = make([]uint8, len(s.Clusters))
	}
	for i := range candidates {
		c := &candidates[i]
		at, ok := slices.BinarySearchFunc(s.Clusters, c.group.Cluster, func(h Host, key string) int { return strings.Compare(h.Key, key) })
		if ok && weighted {
			s.HostWeights[at] = c.weight
		}
		if ok && len(c.group.Cluster) <= room {
			c.host = int32(at) //nolint:gosec // few clusters
		}
	}
}

// uniq sorts s, drops duplicates, and keeps no spare capacity.
func uniq[T any](s []T, compare func(a, b T) int) []T {
	slices.SortFunc(s, compare)
	return slices.Clip(slices.CompactFunc(s, func(a, b T) bool { return compare(a, b) == 0 }))
}
