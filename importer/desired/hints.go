package desired

import (
	"cmp"
	"slices"

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

// choice is kube-proxy's choice for a port in one family: it chooses among the endpoints of some records.
type choice struct {
	among  []*record
	last   []topology.Rank // for each view, the worst rank that is still used
	hinted bool            // else all is expressed by hiding
}

// decide decides whether the choice is expressed by hints. kube-proxy on a node without a zone ignores them, and it requires them on all endpoints or
// none.
func (c *choice) decide(w *work) {
	c.last = w.last(c.among, 0)
	c.hinted = !w.in.unzoned() && (len(w.views) <= maxHints || !slices.ContainsFunc(c.among, func(r *record) bool {
		return slices.ContainsFunc(r.targets, func(t target) bool { return len(w.zonesOf(&t, c.last)) > maxHints })
	}))
}

// zonesOf returns the zones for which an endpoint is among the best.
func (w *work) zonesOf(t *target, last []topology.Rank) (zones []string) {
	for i := range w.views {
		if last[i].Usable() && t.ranks[i] <= last[i] {
			zones = append(zones, w.views[i].Self.Zone)
		}
	}
	return zones
}

// uses decides how kube-proxy uses endpoints of a choice.
//
// Hints express preference, because kube-proxy itself ignores them as soon as no ready endpoint is hinted for its zone
// (pkg/proxy/topology.go). Endpoints that must not be used are hidden from kube-proxy, because it would use them in that case.
//
// Endpoints that are all equally good are hinted too, as long as all zones fit. Otherwise draining the first of many clusters would
// change the slices of all others.
func (w *work) uses(targets []target, c *choice) []use {
	if !c.hinted {
		return routeBest(targets, c.last)
	}
	uses := make([]use, len(targets))
	for i := range targets {
		t, u := &targets[i], &uses[i]
		u.zones = w.zonesOf(t, c.last)
		u.routed = len(u.zones) > 0 || slices.ContainsFunc(t.ranks, func(rank topology.Rank) bool { return rank.Usable() && !rank.LastResort() })
		if u.routed && len(u.zones) == 0 && slices.ContainsFunc(c.last, topology.Rank.Usable) {
			u.zones = []string{api.HintNone}
		}
	}
	return uses
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
