package index

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"github.com/clusterset/clusterset/internal/topology"
)

// degradedRank is more than any tier's rank, so that the last healthy endpoint comes before the first degraded one.
const degradedRank = 16

// maxName is the longest DNS name in text form with its final dot (RFC 1035, 2.3.4).
const maxName = 254

// ranker turns groups of endpoints into a Set, as seen by a server that stands at self.
type ranker struct {
	self     topology.Location
	policy   topology.Policy
	longest  int // Options.LongestZone
	clusters map[string]*Cluster
}

// candidate is an endpoint that may be served.
type candidate struct {
	*Endpoint
	judgement
	group  *Group
	host   int32
	weight uint8
}

// usualWeight is that of a cluster which states none (MemberCluster, spec.weight).
const usualWeight = 100

// judgement is what the ranking makes of an endpoint, seen by itself.
type judgement struct {
	verdict Verdict
	rank    int // the lower the better, where the verdict is Eligible
	tier    topology.Tier
}

// Verdict says whether an endpoint may be served.
type Verdict uint8

const (
	// Eligible endpoints compete by their tiers.
	Eligible Verdict = iota
	// Expired endpoints are in a cluster that is Gone.
	Expired
	// NotReady endpoints are not ready.
	NotReady
	// Outside endpoints lie outside of the boundary.
	Outside
)

// judge ranks an endpoint.
func (r *ranker) judge(group *Group, e *Endpoint) judgement {
	cluster := r.clusters[group.Cluster]
	if cluster == nil {
		cluster = &Cluster{} // no MemberCluster known: healthy, place unknown
	}
	switch {
	case cluster.Health == Gone:
		return judgement{verdict: Expired}
	case !e.Ready:
		return judgement{verdict: NotReady}
	}
	rank, tier, ok := r.policy.Rank(r.self, topology.Location{
		Cluster: group.Cluster,
		Zone:    cmp.Or(e.Zone, cluster.Zone),
		Region:  cmp.Or(group.Region, cluster.Region),
	})
	if !ok {
		return judgement{verdict: Outside}
	}
	if cluster.Health == Degraded {
		rank += degradedRank
	}
	return judgement{Eligible, rank, tier}
}

func (r *ranker) rank(key ServiceKey, source Source, headless bool, ports []Port, groups []Group) *Set {
	s := &Set{Source: source, Headless: headless}
	candidates, live := r.candidates(groups)
	s.Live = live
	best := bestOf(candidates, func(*candidate) bool { return true })
	var addrs []netip.Addr
	for i := range candidates {
		if c := &candidates[i]; c.rank == best {
			addrs = append(addrs, c.Addr)
			s.Tier, s.Degraded = c.tier, best >= degradedRank
		}
	}
	s.Addrs = SortAddrs(addrs)
	weighted := r.weigh(candidates)
	if weighted {
		s.Weights = addrWeights(s.Addrs, candidates, best)
	}
	s.Clusters = hostsBy(candidates, func(i int) string { return candidates[i].group.Cluster })
	if headless {
		r.nameHosts(s, key, candidates)
		if weighted {
			s.HostWeights = make([]uint8, len(s.Hosts))
			for i := range candidates {
				if c := &candidates[i]; c.host != ServiceItself {
					s.HostWeights[c.host] = c.weight // a host is in one cluster
				}
			}
		}
		s.Ports, s.Targets = hostPorts(ports, candidates, s.HostWeights, false, best)
	} else if source == SourceGlobalService && portsDiffer(ports, groups) {
		r.nameClusters(s, key, candidates, weighted)
		s.Ports, s.Targets = hostPorts(ports, candidates, s.HostWeights, true, best)
	} else {
		s.Ports, s.Targets = servicePorts(ports)
	}
	return s
}

// candidates returns the endpoints that may be served, and whether any is ready in a live cluster, boundary or not.
func (r *ranker) candidates(groups []Group) (candidates []candidate, live bool) {
	n := 0
	for i := range groups {
		n += len(groups[i].Endpoints)
	}
	candidates = make([]candidate, 0, n)
	for i := range groups {
		group := &groups[i]
		for j := range group.Endpoints {
			e := &group.Endpoints[j]
			j := r.judge(group, e)
			live = live || j.verdict == Eligible || j.verdict == Outside
			if j.verdict == Eligible {
				candidates = append(candidates, candidate{Endpoint: e, judgement: j, group: group, host: ServiceItself})
			}
		}
	}
	return candidates, live
}

// weigh tells each candidate its cluster's weight, and reports whether they differ.
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

// addrWeights sums the weights of the addresses that candidates of that rank have. An address of two clusters has the larger.
func addrWeights(addrs Addrs, candidates []candidate, rank int) Weights {
	weights := make(Weights, len(addrs))
	for i := range candidates {
		if c := &candidates[i]; c.rank == rank {
			at, _ := slices.BinarySearchFunc(addrs, c.Addr, netip.Addr.Compare)
			weights[at] = max(weights[at], uint32(c.weight))
		}
	}
	for i := 1; i < len(weights); i++ {
		weights[i] += weights[i-1]
	}
	return weights
}

// bestOf returns the best rank among the candidates that have what it takes, or -1.
func bestOf(candidates []candidate, fit func(*candidate) bool) int {
	best := -1
	for i := range candidates {
		if c := &candidates[i]; (best < 0 || c.rank < best) && fit(c) {
			best = c.rank
		}
	}
	return best
}

// hostsBy groups the candidates' addresses by a name, leaving out those that have none.
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

// nameHosts fills in Hosts, and tells each candidate its host.
func (r *ranker) nameHosts(s *Set, key ServiceKey, candidates []candidate) {
	room := maxName - len(".") - len(key) - len(".svc.") - r.longest
	keys := make([]string, len(candidates))
	for i := range candidates {
		c := &candidates[i]
		hostname := c.Hostname
		if hostname == "" {
			hostname = HostnameOf(c.Addr)
		}
		if c.group.Cluster == "" || len(hostname)+len(".")+len(c.group.Cluster) > room {
			continue // its address still serves the service's own name
		}
		keys[i] = hostname + "." + c.group.Cluster
	}
	s.Hosts = hostsBy(candidates, func(i int) string { return keys[i] })
	for i := range candidates {
		if keys[i] == "" {
			continue
		}
		at, _ := slices.BinarySearchFunc(s.Hosts, keys[i], func(h Host, key string) int { return strings.Compare(h.Key, key) })
		candidates[i].host = int32(at) //nolint:gosec // an index into a slice of at most some thousand hosts
	}
}

// nameClusters tells each candidate the number of its cluster, which SRV records of a ClusterIP service can point at in the dialect
// Global.
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

// uniq sorts s and drops what occurs twice, with no spare capacity kept alive.
func uniq[T any](s []T, compare func(a, b T) int) []T {
	slices.SortFunc(s, compare)
	return slices.Clip(slices.CompactFunc(s, func(a, b T) bool { return compare(a, b) == 0 }))
}
