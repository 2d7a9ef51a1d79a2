package desired

import (
	"cmp"
	"slices"
	"strings"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/internal/topology"
)

const (
	// maxHints is how many zones an endpoint can be hinted for: the API server refuses more.
	maxHints = 8
)

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
	if w.in.unzoned() {
		return routeBest(targets, last)
	}
	uses := make([]use, len(targets))
	for i := range w.views {
		for j := range targets {
			rank := targets[j].ranks[i]
			best := last[i].Usable() && rank <= last[i]
			if best {
				uses[j].zones = append(uses[j].zones, w.views[i].Self.Zone)
			}
			uses[j].routed = uses[j].routed || best || rank.Usable() && !rank.LastResort()
		}
	}
	covered := covered(last)
	hinted := covered > 0
	if covered > maxHints {
		hinted = slices.ContainsFunc(uses, func(u use) bool { return u.routed && len(u.zones) < len(w.views) })
		if hinted && !spreadZones(targets, uses, covered) {
			return routeBest(targets, last)
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
func routeBest(targets []target, last []topology.Rank) []use {
	uses := make([]use, len(targets))
	for i := range last {
		for j := range targets {
			rank := targets[j].ranks[i]
			uses[j].routed = uses[j].routed || rank.Usable() && (rank <= last[i] || !last[i].Usable())
		}
	}
	return uses
}

// last returns, for each view, the rank of the last endpoint used of some records. Endpoints that aren't ready don't count. have is how
// many ready endpoints there are besides.
func (w *work) last(records []*record, have int) []topology.Rank {
	var ready []*target
	for _, r := range records {
		for i := range r.targets {
			if r.targets[i].ready {
				ready = append(ready, &r.targets[i])
			}
		}
	}
	last := make([]topology.Rank, len(w.views))
	for i, view := range w.views {
		view.Policy.MinReady -= have
		last[i] = view.Last(len(ready), func(j int) topology.Ranked {
			return topology.Ranked{Rank: ready[j].ranks[i], Addr: ready[j].Addr, Behind: ready[j].Behind}
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

// seenFrom returns the locations from which this cluster's kube-proxies choose, sorted by zone: one per zone of its nodes, or the
// cluster's own location if the nodes' zones are unknown.
func (w *work) seenFrom() (views []topology.View) {
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
		return []topology.View{at(zone, "")}
	}
	for _, p := range w.in.Nodes {
		if n := len(views); n == 0 || views[n-1].Self.Zone != p.Zone { // kube-proxy knows zones, but not regions
			views = append(views, at(p.Zone, p.Region))
		}
	}
	return views
}

// unzoned reports whether some node may have no zone, so that kube-proxy ignores hints there.
func (in *Input) unzoned() bool {
	return len(in.Nodes) == 0 || slices.ContainsFunc(in.Nodes, func(n topology.Location) bool { return n.Zone == "" })
}

// policy returns the service's policy.
func (w *work) policy() topology.Policy { return w.resolved.Policy.Or(w.in.Policy) }
