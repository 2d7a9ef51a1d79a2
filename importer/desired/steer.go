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
//
// last is, for each view, the rank of the last of all these endpoints that is used. The targets are all of them, or, where last has no
// more than maxHints usable ranks, any part: then how one is used depends on no other.
func (w *work) steer(targets []target, last []topology.Rank) []use {
	views := w.views()
	if w.in.unzoned() {
		return routeBest(views, targets, last)
	}
	uses := make([]use, len(targets))
	for i := range views {
		for j := range targets {
			rank := views[i].Rank(&targets[j].Endpoint)
			best := last[i].Usable() && rank <= last[i]
			if best {
				uses[j].zones = append(uses[j].zones, views[i].Self.Zone)
			}
			uses[j].routed = uses[j].routed || best || rank.Usable() && !rank.LastResort()
		}
	}
	covered := covered(last)
	hinted := covered > 0
	if covered > maxHints {
		hinted = slices.ContainsFunc(uses, func(u use) bool { return u.routed && len(u.zones) < len(views) })
		if hinted && !deal(targets, uses, covered) {
			return routeBest(views, targets, last)
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

// covered is how many views have an endpoint to use.
func covered(last []topology.Rank) (n int) {
	for _, rank := range last {
		if rank.Usable() {
			n++
		}
	}
	return n
}

// routeBest routes what is best for one of the views, without hints. Where nothing is ready it routes what could be.
func routeBest(views []topology.View, targets []target, last []topology.Rank) []use {
	uses := make([]use, len(targets))
	for i := range views {
		for j := range targets {
			rank := views[i].Rank(&targets[j].Endpoint)
			uses[j].routed = uses[j].routed || rank.Usable() && (rank <= last[i] || !last[i].Usable())
		}
	}
	return uses
}

// last returns, for each view, the rank of the last endpoint that is used of some records. Those that aren't ready make no tier.
func (w *work) last(records []*record) []topology.Rank {
	views := w.views()
	last := make([]topology.Rank, len(views))
	var all []target
	for i := range views {
		last[i] = topology.Gone
		for _, r := range records {
			last[i] = min(last[i], r.best[i].rank)
		}
		enough := views[i].Policy.MinReady
		switch {
		case !last[i].Usable():
			last[i] = topology.Gone
			continue
		case enough <= 1 || slices.ContainsFunc(records, func(r *record) bool { return r.best[i].rank == last[i] && r.best[i].n >= enough }):
			continue
		}
		// Other tiers may join, or the records' endpoints may be the same ones.
		if all == nil {
			for _, r := range records {
				all = append(all, w.targets(r)...)
			}
		}
		last[i] = views[i].Last(len(all), func(j int) topology.Ranked {
			t := &all[j]
			if !t.ready {
				return topology.Ranked{Rank: topology.Gone, Addr: t.Addr}
			}
			return topology.Ranked{Rank: views[i].Rank(&t.Endpoint), Addr: t.Addr, Behind: t.Behind}
		})
	}
	return last
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
	own := w.in.member(w.in.Cluster)
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
func targetOf(c *cluster, address string, zone *string, ready bool) target {
	addr, _ := netip.ParseAddr(address) // it has been parsed before
	t := target{topology.Endpoint{Addr: addr, Cluster: c.name, Member: &c.member}, ready}
	if zone != nil {
		t.Zone = *zone
	}
	return t
}

// policy is how the service's endpoints are chosen.
func (w *work) policy() topology.Policy { return w.resolved.Policy.Or(w.in.Policy) }
