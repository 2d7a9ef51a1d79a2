package preview

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/index"
	"github.com/clusterset/clusterset/internal/kubeproxy"
	"github.com/clusterset/clusterset/internal/topology"
)

// Answers are what a service is to clients in a place.
type Answers struct {
	// DNS is the name below clusterset.local, Global the one below svc.global.
	DNS    Answer `json:"dns"`
	Global Answer `json:"global"`
	// ClusterSetIP is where connections to it lead, nil where there is none, or no node in the place.
	ClusterSetIP *Answer `json:"clusterSetIP,omitempty"`
}

// Answer is which endpoints are used.
type Answer struct {
	// Result is a name's, as in the rcode of a reply, or NODATA. Of a ClusterSetIP it is NOERROR as long as it leads anywhere.
	Result Rcode `json:"result"`
	// ByClusterSetIP says that the name has that address, whatever is behind it. Then there is nothing but the Result.
	ByClusterSetIP bool `json:"byClusterSetIP,omitempty"`
	// Tier is the one that is used, of the service's policy, Degraded whether only drained and silent clusters are left.
	Tier     string `json:"tier,omitempty"`
	Degraded bool   `json:"degraded,omitempty"`
	// Clusters are those with endpoints in use, by name; Ready is how many of these are ready, in clusters that aren't down.
	Clusters []Share `json:"clusters,omitempty"`
	Ready    int     `json:"ready"`
	// Ports are those of a ClusterSetIP that lead anywhere.
	Ports []string `json:"ports,omitempty"`
	// Addresses are those in use, where they are asked for.
	Addresses []string `json:"addresses,omitempty"`

	// within is the narrowest of zone and region around the place that all of them lie in, addrs are their addresses.
	within topology.Tier
	addrs  index.Addrs
}

// Share is what a cluster contributes to an Answer. An endpoint of two addresses, one of each family, counts once.
type Share struct {
	Cluster string `json:"cluster"`
	Ready   int    `json:"ready"`
	// Down says that they serve nobody.
	Down bool `json:"down,omitempty"`
}

// Rcode is what is said of a name.
type Rcode string

// The Rcodes.
const (
	NoError  Rcode = "NOERROR"  // with addresses
	NoData   Rcode = "NODATA"   // the name exists, and has no address
	NXDomain Rcode = "NXDOMAIN" // it doesn't
)

// Answers returns what a service is in a place, which is one of the State's.
func (s *State) Answers(service string, p Place, o Options) (*Answers, error) {
	key, err := ParseService(service)
	if err != nil {
		return nil, err
	}
	return s.look(key, &o).at(p), nil
}

// Imported returns what a service is in a place by the objects that its cluster has: what importers, of whatever make, have written.
func Imported(objects []runtime.Object, service string, p Place, o Options) (*Answers, error) {
	key, err := ParseService(service)
	if err != nil {
		return nil, err
	}
	s := &seen{views: map[string]*Answers{}}
	l := &look{state: &State{ranked: map[string]*index.Cluster{}}, options: &o, key: key}
	var routed []*discoveryv1.EndpointSlice
	for _, object := range objects {
		s.take(object)
		switch object := object.(type) {
		case *clustersetv1alpha1.MemberCluster:
			if c, _ := index.FromMemberCluster(object); c != nil {
				l.state.ranked[c.Name] = c
			}
		case *discoveryv1.EndpointSlice:
			routed = append(routed, object)
		}
	}
	return l.answers(s.routed(key, routed), p, true), nil
}

// at returns what the service is in a place.
func (l *look) at(p Place) *Answers {
	s := l.from(p.Cluster)
	if s.views[p.Zone] == nil {
		s.views[p.Zone] = l.answers(s, p, l.state.hasNodes(p))
	}
	return s.views[p.Zone]
}

func (l *look) answers(s *seen, p Place, nodes bool) *Answers {
	x := index.New(index.Options{Self: topology.Location(p), Policy: l.options.Policy})
	x.Put(s.objects...)
	x.Publish()
	a := &Answers{}
	svc := x.Snapshot().Service(string(index.NewServiceKey(l.key.Namespace, l.key.Name)))
	a.DNS, a.Global = l.named(p, x, svc, index.MCS), l.named(p, x, svc, index.Global)
	if s.vip && nodes && svc != nil {
		a.ClusterSetIP = l.proxied(p, s, svc)
	}
	return a
}

// named is what a name answers.
func (l *look) named(p Place, x *index.Index, svc *index.Service, d index.Dialect) Answer {
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
	g := l.gather(p)
	var behind map[string]int
	if !set.Headless {
		behind = svc.ReadyIn()
	}
	for _, e := range x.Ranking(svc, d) {
		if e.Used {
			g.add(topology.Endpoint{Addr: e.Addr, Cluster: e.Cluster, Member: l.member(e.Cluster), Zone: e.Zone, Region: e.Region, ClusterIP: !set.Headless}, behind)
		}
	}
	a := g.answer(set.Degraded)
	a.Tier = set.Tier.String()
	return a
}

// proxied is where connections to the ClusterSetIP lead from the nodes of the place.
func (l *look) proxied(p Place, s *seen, svc *index.Service) *Answer {
	g := l.gather(p)
	view := topology.View{Self: topology.Location(p), Policy: svc.Policy(index.MCS).Or(l.options.Policy), UseExpired: true}
	last, degraded, behind := topology.Rank(0), false, svc.ReadyIn()
	var ports []string
	for port, ready := range s.behind {
		alive, best := false, topology.Gone
		for _, e := range kubeproxy.In(ready, p.Zone) {
			at := l.endpoint(e)
			if e.ClusterIP {
				g.add(at, behind)
			} else {
				g.add(at, nil)
			}
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

// endpoint is an endpoint behind a ClusterSetIP as the ranking takes it.
func (l *look) endpoint(e kubeproxy.Endpoint) topology.Endpoint {
	addr, _ := netip.ParseAddr(e.Addresses[0]) // the importer has parsed it
	at := topology.Endpoint{Addr: addr, Cluster: e.Cluster, Member: l.member(e.Cluster), ClusterIP: e.ClusterIP}
	if e.Zone != nil {
		at.Zone = *e.Zone
	}
	return at
}

// gathering is the endpoints in use, as they are found.
type gathering struct {
	*look
	near   topology.View
	addrs  map[string][]netip.Addr // by cluster
	behind map[string]int
	within topology.Tier
}

// gather begins a gathering in a place.
func (l *look) gather(p Place) *gathering {
	return &gathering{
		look: l, addrs: map[string][]netip.Addr{}, behind: map[string]int{}, within: topology.Zone,
		// How near an endpoint is in truth, whatever is preferred.
		near: topology.View{Self: topology.Location(p), Policy: topology.Policy{Prefer: topology.DefaultPrefer}, UseExpired: true},
	}
}

// add takes up an endpoint. One that stands for its whole cluster counts as many as are behind it.
func (g *gathering) add(e topology.Endpoint, behind map[string]int) {
	g.addrs[e.Cluster] = append(g.addrs[e.Cluster], e.Addr)
	if behind != nil {
		g.behind[e.Cluster] = behind[e.Cluster]
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
