package preview

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
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
	// Addresses are the addresses in use, if Options.Addresses asks for them.
	Addresses []string `json:"addresses,omitempty"`

	// within is the narrowest of zone and region around the place that contains all addresses in use. addrs are these addresses.
	within topology.Tier
	addrs  index.Addrs
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
func (s *State) Answers(service string, p place.Place, o Options) (*Answers, error) {
	key, err := ParseService(service)
	if err != nil {
		return nil, err
	}
	return s.look(key, &o).at(p), nil
}

// Imported returns the Answers of a service in a place, computed from the objects in that place's cluster. Any importer may have
// written them.
func Imported(objects []runtime.Object, service string, p place.Place, o Options) (*Answers, error) {
	key, err := ParseService(service)
	if err != nil {
		return nil, err
	}
	l := &look{state: &State{ranked: map[string]*index.Cluster{}, unreachable: map[string][]string{}}, options: &o, key: key}
	s := l.read(objects)
	for _, object := range s.objects {
		switch object := object.(type) {
		case *index.Cluster:
			l.state.ranked[object.Name] = object
		case *index.Reachability:
			l.state.unreachable[p.Cluster] = object.Unreachable
		}
	}
	return l.answers(s, p, true), nil
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
	a := &Answers{}
	svc := x.Snapshot().Service(string(index.NewServiceKey(l.key.Namespace, l.key.Name)))
	a.DNS, a.Global = l.named(p, s, x, svc, index.MCS), l.named(p, s, x, svc, index.Global)
	if s.vip && nodes && svc != nil {
		a.ClusterSetIP = l.proxied(p, s, svc)
	}
	return a
}

// named returns the Answer for a name.
func (l *look) named(p place.Place, s *seen, x *index.Index, svc *index.Service, d index.Dialect) Answer {
	if svc == nil {
		return Answer{Result: NXDomain}
	}
	var found index.Lookup
	x.Snapshot().Lookup(&found, index.Zone{Dialect: d}, string(svc.Key())+".svc")
	set := svc.Set(d)
	switch {
	case found.Kind == index.NameError:
		return Answer{Result: NXDomain}
	case set.Source == index.SourceClusterSetIPs && len(found.Addrs) > 0:
		return Answer{Result: NoError, ByClusterSetIP: true}
	case len(found.Addrs) == 0:
		return Answer{Result: NoData}
	}
	g := l.gather(p, s, svc)
	for _, e := range x.Ranking(svc, d) {
		if e.Used {
			g.add(topology.Endpoint{Addr: e.Addr, Cluster: e.Cluster, Member: l.member(p.Cluster, e.Cluster), Zone: e.Zone, Region: e.Region, ClusterIP: !set.Headless}, !set.Headless)
		}
	}
	a := g.answer(set.Degraded)
	a.Tier = set.Tier.String()
	return a
}

// proxied returns where connections to the ClusterSetIP lead from the nodes of the place.
func (l *look) proxied(p place.Place, s *seen, svc *index.Service) *Answer {
	g := l.gather(p, s, svc)
	view := topology.View{Self: topology.Location(p), Policy: svc.Policy(index.MCS).Or(l.options.Policy), UseExpired: true}
	last, degraded := topology.Rank(0), false
	var ports []string
	for port, ready := range s.behind {
		alive, best := false, topology.Gone
		for _, e := range kubeproxy.In(ready, p.Zone) {
			at := l.endpoint(p.Cluster, e)
			g.add(at, e.ClusterIP)
			alive = alive || !l.state.down[e.Cluster]
			rank := view.Rank(&at)
			best, last = min(best, rank), max(last, rank)
		}
		degraded = degraded || best.Degraded()
		if alive {
			ports = append(ports, strings.TrimSpace(port.Name+" "+string(port.Protocol)+" "+string(port.Family)))
		}
	}
	a := g.answer(degraded)
	if len(a.Clusters) > 0 {
		a.Tier = view.Tier(last).String()
	}
	slices.Sort(ports)
	a.Ports = ports
	return &a
}

// endpoint converts an endpoint behind a ClusterSetIP for the ranking.
func (l *look) endpoint(here string, e kubeproxy.Endpoint) topology.Endpoint {
	addr, _ := netip.ParseAddr(e.Addresses[0]) // the importer has validated it
	return topology.Endpoint{Addr: addr, Zone: ptr.Deref(e.Zone, ""), Cluster: e.Cluster, Member: l.member(here, e.Cluster), ClusterIP: e.ClusterIP}
}

// gathering collects the endpoints in use.
type gathering struct {
	*look
	near   topology.View
	seen   *seen
	ready  func() map[string]int   // how many are ready in each cluster
	addrs  map[string][]netip.Addr // by cluster
	behind map[string]int
	within topology.Tier
}

// gather returns an empty gathering for a place.
func (l *look) gather(p place.Place, s *seen, svc *index.Service) *gathering {
	return &gathering{
		look: l, seen: s, addrs: map[string][]netip.Addr{}, behind: map[string]int{}, within: topology.Zone,
		ready: sync.OnceValue(func() map[string]int {
			if svc == nil {
				return nil
			}
			return svc.ReadyIn()
		}),
		// The real distance of an endpoint, independent of what the policy prefers.
		near: topology.View{Self: topology.Location(p), Policy: topology.Policy{Prefer: topology.DefaultPrefer}, UseExpired: true},
	}
}

// add adds an endpoint. If it stands for its whole cluster, it counts for all ready endpoints behind it; and for one if the records name none,
// as for a Service whose endpoints aren't in EndpointSlices: its address is used all the same.
func (g *gathering) add(e topology.Endpoint, stands bool) {
	g.addrs[e.Cluster] = append(g.addrs[e.Cluster], e.Addr)
	if stands && g.ready()[e.Cluster] > 0 {
		g.behind[e.Cluster] = g.ready()[e.Cluster]
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
		v4, v6 := index.SortAddrs(addrs).Split()
		s := Share{Cluster: cluster, Ready: max(len(v4), len(v6)), Down: g.state.down[cluster]}
		if n, ok := g.behind[cluster]; ok {
			s.Ready = n
		}
		if !s.Down {
			a.Ready += s.Ready
		}
		a.Clusters = append(a.Clusters, s)
	}
	slices.SortFunc(a.Clusters, func(a, b Share) int { return cmp.Compare(a.Cluster, b.Cluster) })
	a.addrs = index.SortAddrs(all)
	if g.options.Addresses {
		for _, addr := range a.addrs {
			a.Addresses = append(a.Addresses, addr.String())
		}
	}
	if len(a.Clusters) == 0 {
		a.Result = NoData
	}
	return a
}
