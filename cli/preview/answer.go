package preview

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/clusterset/clusterset/cli/place"
	"github.com/clusterset/clusterset/internal/index"
	"github.com/clusterset/clusterset/internal/kubeproxy"
	"github.com/clusterset/clusterset/internal/topology"
)

// Answers are the results of a service's names and ClusterSetIP for clients in one place.
type Answers struct {
	// DNS is for the name below clusterset.local, Global for the name below svc.global.
	DNS    Answer `json:"dns"`
	Global Answer `json:"global"`
	// ClusterSetIP is where connections to it lead. It is nil if the service has none, or if the place has no nodes.
	ClusterSetIP *Answer `json:"clusterSetIP,omitempty"`
}

// Answer says which endpoints are used.
type Answer struct {
	// Result is the rcode of a reply to a query for the name, or NODATA. For a ClusterSetIP it is NOERROR if it leads to any endpoint.
	Result Rcode `json:"result"`
	// ByClusterSetIP says that the name resolves to the ClusterSetIP, whatever endpoints that has. Only Result is set then.
	ByClusterSetIP bool `json:"byClusterSetIP,omitempty"`
	// Tier is the tier of the service's policy that is used. Degraded says that only drained, silent and unreachable clusters are left.
	Tier     string `json:"tier,omitempty"`
	Degraded bool   `json:"degraded,omitempty"`
	// Clusters are the clusters whose endpoints are used, by name. Ready is the number of ready endpoints in those that aren't down.
	Clusters []Share `json:"clusters,omitempty"`
	Ready    int     `json:"ready"`
	// Ports are the ports of a ClusterSetIP that lead to an endpoint.
	Ports []string `json:"ports,omitempty"`
	// Addrs are the addresses in use.
	Addrs index.Addrs `json:"-"`

	// within is the narrowest of zone and region around the place that contains all addresses in use.
	within topology.Tier
}

// Share is a cluster's part of an Answer. An endpoint with an address of each family counts once.
type Share struct {
	Cluster string `json:"cluster"`
	Ready   int    `json:"ready"`
	// Down says that the cluster is down, so its endpoints serve no client.
	Down bool `json:"down,omitempty"`
}

// Rcode is the result of a query for a name.
type Rcode string

// The Rcodes.
const (
	NoError  Rcode = "NOERROR"  // with addresses
	NoData   Rcode = "NODATA"   // the name exists, but has no address
	NXDomain Rcode = "NXDOMAIN" // the name doesn't exist
)

// Answers returns the Answers of a service in a place of this State.
func (s *State) Answers(key types.NamespacedName, p place.Place, o Options) *Answers {
	return s.look(key, &o).at(p)
}

// Imported returns the Answers of a service in a place, computed from the objects in that place's cluster. Any importer may have
// written them.
func Imported(objects []runtime.Object, key types.NamespacedName, p place.Place, o Options) *Answers {
	l := NewState(nil).look(key, &o)
	s := l.read(objects)
	for _, object := range s.objects {
		switch object := object.(type) {
		case *index.Cluster:
			l.state.ranked[object.Name] = object
		case *index.Reachability:
			l.state.unreachable[p.Cluster] = object.Unreachable
		}
	}
	return l.answers(s, p, true)
}

// at returns the Answers of the service in a place.
func (l *look) at(p place.Place) *Answers {
	s := l.from(p.Cluster)
	if s.views[p.Zone] == nil {
		s.views[p.Zone] = l.answers(s, p, l.state.hasNodes(p))
	}
	return s.views[p.Zone]
}

func (l *look) answers(s *seen, p place.Place, nodes bool) *Answers {
	x := index.New(index.Options{Self: topology.Location(p), Policy: l.options.Policy})
	x.Put(s.objects...)
	x.Publish()
	svc := x.Snapshot().Service(string(index.NewServiceKey(l.key.Namespace, l.key.Name)))
	if svc == nil {
		return &Answers{DNS: Answer{Result: NXDomain}, Global: Answer{Result: NXDomain}}
	}
	v := view{look: l, seen: s, place: p, index: x, service: svc, ready: svc.ReadyIn()}
	a := &Answers{DNS: v.named(index.MCS), Global: v.named(index.Global)}
	if s.vip && nodes {
		a.ClusterSetIP = v.proxied()
	}
	return a
}

// view is a service as one place sees it.
type view struct {
	*look
	seen    *seen
	place   place.Place
	index   *index.Index
	service *index.Service
	ready   map[string]int // how many of its endpoints are ready in each cluster
}

// named returns the Answer for a name.
func (v *view) named(d index.Dialect) Answer {
	var found index.Lookup
	v.index.Snapshot().Lookup(&found, index.Zone{Dialect: d}, string(v.service.Key())+".svc")
	set := v.service.Set(d)
	switch {
	case found.Kind == index.NameError:
		return Answer{Result: NXDomain}
	case len(found.Addrs) == 0:
		return Answer{Result: NoData}
	case set.Source == index.SourceClusterSetIPs:
		return Answer{Result: NoError, ByClusterSetIP: true}
	}
	g := v.gather()
	for _, e := range v.index.Ranking(v.service, d) {
		if e.Used {
			g.add(topology.Endpoint{Addr: e.Addr, Cluster: e.Cluster, Member: v.member(e.Cluster), Zone: e.Zone, Region: e.Region, ClusterIP: !set.Headless})
		}
	}
	a := g.answer(set.Degraded)
	a.Tier = set.Tier.String()
	return a
}

// proxied returns where connections to the ClusterSetIP lead from the nodes of the place.
func (v *view) proxied() *Answer {
	g := v.gather()
	ranks := topology.View{Self: topology.Location(v.place), Policy: v.service.Policy(index.MCS).Or(v.options.Policy), UseExpired: true}
	last, degraded, shares := topology.Rank(0), false, v.service.Shares()
	var ports []string
	for port, ready := range v.seen.behind {
		alive, best := false, topology.Gone
		for _, e := range kubeproxy.In(ready, v.place.Zone) {
			addr, _ := netip.ParseAddr(e.Addresses[0]) // the importer has validated it
			at := topology.Endpoint{Addr: addr, Zone: ptr.Deref(e.Zone, ""), Cluster: e.Cluster, Member: v.member(e.Cluster), ClusterIP: e.ClusterIP}
			_, external := v.seen.external[e.Cluster]
			at.Spare = shares[e.Cluster].Spare(addr, e.ClusterIP || external)
			g.add(at)
			alive = alive || !v.state.down[e.Cluster]
			rank := ranks.Rank(&at)
			best, last = min(best, rank), max(last, rank)
		}
		degraded = degraded || best.Degraded()
		if alive {
			ports = append(ports, strings.TrimSpace(port.Name+" "+string(port.Protocol)+" "+string(port.Family)))
		}
	}
	a := g.answer(degraded)
	if len(a.Clusters) > 0 {
		a.Tier = ranks.Tier(last).String()
	}
	slices.Sort(ports)
	a.Ports = ports
	return &a
}

// member returns what the ranking needs to know of a cluster.
func (v *view) member(cluster string) *topology.Member {
	c := v.state.ranked[cluster]
	if c == nil {
		return nil
	}
	m := c.Member
	m.Unreachable = slices.Contains(v.state.unreachable[v.place.Cluster], cluster)
	return &m
}

// gathering collects the endpoints in use.
type gathering struct {
	*view
	near   topology.View           // the real distance of an endpoint, whatever the policy prefers
	addrs  map[string][]netip.Addr // by cluster
	behind map[string]int
	within topology.Tier
}

func (v *view) gather() *gathering {
	return &gathering{
		view: v, addrs: map[string][]netip.Addr{}, behind: map[string]int{}, within: topology.Zone,
		near: topology.View{Self: topology.Location(v.place), UseExpired: true},
	}
}

// add adds an endpoint. If it stands for its whole cluster, it counts for all ready endpoints behind it; and for one if the records name none,
// as for a Service whose endpoints aren't in EndpointSlices: its address is used all the same.
func (g *gathering) add(e topology.Endpoint) {
	g.addrs[e.Cluster] = append(g.addrs[e.Cluster], e.Addr)
	if e.ClusterIP && g.ready[e.Cluster] > 0 {
		g.behind[e.Cluster] = g.ready[e.Cluster]
	}
	if n, ok := g.seen.external[e.Cluster]; ok {
		g.behind[e.Cluster] = n // external addresses lead to these together
	}
	g.within = min(g.within, g.near.Tier(g.near.Rank(&e)))
}

func (g *gathering) answer(degraded bool) Answer {
	a := Answer{Result: NoError, Degraded: degraded, within: g.within}
	var all []netip.Addr
	for cluster, addrs := range g.addrs {
		all = append(all, addrs...)
		s := Share{Cluster: cluster, Ready: cmp.Or(g.behind[cluster], Distinct(addrs)), Down: g.state.down[cluster]}
		if !s.Down {
			a.Ready += s.Ready
		}
		a.Clusters = append(a.Clusters, s)
	}
	slices.SortFunc(a.Clusters, func(a, b Share) int { return cmp.Compare(a.Cluster, b.Cluster) })
	a.Addrs = index.SortAddrs(all)
	if len(a.Clusters) == 0 {
		a.Result = NoData
	}
	return a
}
