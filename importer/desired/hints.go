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
	// routed is set if the endpoint is in a slice that kube-proxy reads. Endpoints that must not be used are not.
	routed bool
	// zones are the endpoint's hints.
	zones []string
}

func (u use) equal(o use) bool { return u.routed == o.routed && slices.Equal(u.zones, o.zones) }

// assignHints decides how kube-proxy uses the endpoints of one port in one family.
//
// Hints express preference, because kube-proxy itself ignores them as soon as no ready endpoint is hinted for its zone
// (pkg/proxy/topology.go). Endpoints that must not be used are hidden from kube-proxy, because it would use them in that case.
// kube-proxy on a node without a zone ignores hints, so then everything is expressed by hiding, as seen from this cluster's location.
//
// Endpoints that are all equally good are hinted too, as long as all zones fit. Otherwise draining the first of many clusters would
// change the slices of all others, because kube-proxy requires hints on all endpoints or none.
//
// last has, for each view, the worst rank that is still used among all endpoints of the port. targets are all of these endpoints. If
// last has at most maxHints usable ranks, targets may be any subset, because then the use of one endpoint doesn't depend on others.
func (w *work) assignHints(targets []target, last []topology.Rank) []use {
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
		if hinted && !spreadZones(targets, uses, covered) {
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

// routeBest routes the best endpoints of each view, without hints. If no endpoint is ready, it routes those that could become ready.
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

// last returns, for each view, the rank of the last endpoint used of some records. Endpoints that aren't ready don't count. have is how
// many ready endpoints there are besides.
func (w *work) last(records []*record, have int) []topology.Rank {
	views := w.views()
	last := make([]topology.Rank, len(views))
	var all []target
	for i := range views {
		last[i] = topology.Gone
		for _, r := range records {
			last[i] = min(last[i], r.best[i].rank)
		}
		enough := views[i].Policy.MinReady - have
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
		view := views[i]
		view.Policy.MinReady = enough
		last[i] = view.Last(len(all), func(j int) topology.Ranked {
			t := &all[j]
			if !t.ready {
				return topology.Ranked{Rank: topology.Gone, Addr: t.Addr}
			}
			return topology.Ranked{Rank: views[i].Rank(&t.Endpoint), Addr: t.Addr, Behind: t.Behind}
		})
	}
	return last
}

// spreadZones limits each endpoint to maxHints zones. Endpoints that are best for the same zones divide these among them. It returns false if
// a covered zone would have no ready endpoint.
func spreadZones(targets []target, uses []use, covered int) bool {
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

// views returns the locations from which this cluster's kube-proxies choose, sorted by zone: one per zone of its nodes, or the
// cluster's own location if the nodes' zones are unknown.
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
		if n := len(w.seen); n == 0 || w.seen[n-1].Self.Zone != p.Zone { // kube-proxy knows zones, but not regions
			w.seen = append(w.seen, at(p.Zone, p.Region))
		}
	}
	return w.seen
}

// unzoned reports whether some node may have no zone, so that kube-proxy ignores hints there.
func (in *Input) unzoned() bool {
	return len(in.Nodes) == 0 || slices.ContainsFunc(in.Nodes, func(n topology.Location) bool { return n.Zone == "" })
}

// targetOf returns an endpoint of a cluster in the form that ranking needs.
func targetOf(c *cluster, address string, zone *string, ready bool) target {
	addr, _ := netip.ParseAddr(address) // it has been parsed before
	t := target{topology.Endpoint{Addr: addr, Cluster: c.name, Member: &c.member}, ready}
	if zone != nil {
		t.Zone = *zone
	}
	return t
}

// policy returns the service's policy.
func (w *work) policy() topology.Policy { return w.resolved.Policy.Or(w.in.Policy) }
