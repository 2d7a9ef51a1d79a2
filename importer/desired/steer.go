package desired

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/internal/topology"
)

const (
	// maxHints is how many zones an endpoint can be hinted for: the API server refuses more.
	maxHints = 8
)

// target is an endpoint behind a ClusterSetIP.
type target struct {
	topology.Endpoint
	ready bool
}

// use is how kube-proxy is told to use an endpoint.
type use struct {
	// routed says that the endpoint is in a slice that kube-proxy reads. What must not be used isn't.
	routed bool
	// zones are the endpoint's hints; none: it has none.
	zones []string
}

func (u use) equal(o use) bool { return u.routed == o.routed && slices.Equal(u.zones, o.zones) }

// steer decides how the endpoints are used that kube-proxy chooses between: those of one port in one family.
//
// Preference is told by hints, because kube-proxy itself stops to go by them the moment that no ready endpoint is hinted for
// its zone (pkg/proxy/topology.go). What must not be used is kept from it, since it would use it then. Where a node has no
// zone, kube-proxy goes by no hints on it, so that everything is told the second way, as seen from where this cluster lies.
//
// Endpoints that are all equally good are hinted too, as long as there is room for every zone. Without hints on them the first of
// many clusters that is drained would change the slices of all the others, since kube-proxy wants hints on every one or none.
func (w *work) steer(targets []target) []use {
	views := w.views()
	if w.in.unzoned() {
		return routeBest(views, targets)
	}
	uses := make([]use, len(targets))
	covered := 0
	for i := range views {
		last, ranks := chosen(&views[i], targets)
		if last.Usable() {
			covered++
		}
		for j, rank := range ranks {
			best := last.Usable() && rank <= last
			if best {
				uses[j].zones = append(uses[j].zones, views[i].Self.Zone)
			}
			uses[j].routed = uses[j].routed || best || rank.Usable() && !rank.LastResort()
		}
	}
	hinted := covered > 0
	if covered > maxHints {
		hinted = slices.ContainsFunc(uses, func(u use) bool { return u.routed && len(u.zones) < len(views) })
		if hinted && !deal(targets, uses, covered) {
			return routeBest(views, targets)
		}
	}
	for i := range uses {
		switch {
		case !hinted || !uses[i].routed:
			uses[i].zones = nil
		case len(uses[i].zones) == 0:
			uses[i].zones = []string{api.HintNone}
		}
	}
	return uses
}

// routeBest routes what is best for one of the views, without hints. Where nothing is ready it routes what could be.
func routeBest(views []topology.View, targets []target) []use {
	uses := make([]use, len(targets))
	for i := range views {
		last, ranks := chosen(&views[i], targets)
		for j, rank := range ranks {
			uses[j].routed = uses[j].routed || rank.Usable() && (rank <= last || !last.Usable())
		}
	}
	return uses
}

// chosen ranks the endpoints as seen from one place. Those that aren't ready have a rank but make no tier.
func chosen(v *topology.View, targets []target) (last topology.Rank, ranks []topology.Rank) {
	ranks = make([]topology.Rank, len(targets))
	for i := range targets {
		ranks[i] = v.Rank(&targets[i].Endpoint)
	}
	last = v.Last(len(targets), func(i int) topology.Ranked {
		if !targets[i].ready {
			return topology.Ranked{Rank: topology.Gone, Addr: targets[i].Addr}
		}
		return topology.Ranked{Rank: ranks[i], Addr: targets[i].Addr, Behind: targets[i].Behind}
	})
	return last, ranks
}

// deal leaves each endpoint at most maxHints zones. Endpoints that are best for the same zones share these out. It returns
// false where that leaves one of the covered zones without a ready endpoint.
func deal(targets []target, uses []use, covered int) bool {
	groups := map[string][]int{}
	for i, u := range uses {
		if len(u.zones) > maxHints && targets[i].ready {
			key := strings.Join(u.zones, "/")
			groups[key] = append(groups[key], i)
		}
	}
	for _, group := range groups {
		slices.SortFunc(group, func(a, b int) int {
			return cmp.Or(cmp.Compare(targets[a].Cluster, targets[b].Cluster), targets[a].Addr.Compare(targets[b].Addr))
		})
		for n, i := range group {
			zones := uses[i].zones
			dealt := make([]string, maxHints)
			for k := range dealt {
				dealt[k] = zones[(n*maxHints+k)%len(zones)]
			}
			slices.Sort(dealt)
			uses[i].zones = dealt
		}
	}
	hinted := map[string]bool{}
	for i := range uses {
		if !targets[i].ready && len(uses[i].zones) > maxHints {
			uses[i].zones = uses[i].zones[:maxHints]
		}
		for _, zone := range uses[i].zones {
			hinted[zone] = hinted[zone] || targets[i].ready
		}
	}
	ready := 0
	for _, is := range hinted {
		if is {
			ready++
		}
	}
	return ready == covered
}

// views are the places from which this cluster's kube-proxies choose, sorted by zone: one for each zone of its nodes, or where
// it lies itself if that is unknown.
func (w *work) views() []topology.View {
	if w.seen != nil {
		return w.seen
	}
	own := w.member(w.in.Cluster)
	at := func(zone, region string) topology.View {
		return topology.View{
			Self:   topology.Location{Cluster: w.in.Cluster, Zone: zone, Region: cmp.Or(own.Region, region)},
			Policy: w.policy(), UseExpired: true,
		}
	}
	if w.in.unzoned() {
		zone := ""
		if len(own.Zones) == 1 {
			zone = own.Zones[0]
		}
		w.seen = []topology.View{at(zone, "")}
		return w.seen
	}
	for _, p := range w.in.Nodes {
		if n := len(w.seen); n == 0 || w.seen[n-1].Self.Zone != p.Zone { // kube-proxy knows zones, and not their regions
			w.seen = append(w.seen, at(p.Zone, p.Region))
		}
	}
	return w.seen
}

// unzoned says whether kube-proxy goes by no hints on some node, for all that is known.
func (in *Input) unzoned() bool {
	return len(in.Nodes) == 0 || slices.ContainsFunc(in.Nodes, func(n NodePlace) bool { return n.Zone == "" })
}

// targetOf is an endpoint of a cluster as the ranking takes it.
func (w *work) targetOf(cluster, address string, zone *string, ready bool) target {
	addr, _ := netip.ParseAddr(address) // it has been parsed before
	t := target{topology.Endpoint{Addr: addr, Cluster: cluster, Member: w.member(cluster)}, ready}
	if zone != nil {
		t.Zone = *zone
	}
	return t
}

// policy is how the service's endpoints are chosen.
func (w *work) policy() topology.Policy { return w.resolved.Policy.Or(w.in.Policy) }
