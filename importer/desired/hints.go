package desired

import (
	"cmp"
	"iter"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/door"
	"github.com/clusterset/clusterset/internal/merge"
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
	c.last = w.last(c.among, 0, nil)
	c.hinted = !w.in.LabelsOnly && !w.in.unzoned() && (len(w.views) <= maxHints || !slices.ContainsFunc(c.among, func(r *record) bool {
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

// last returns, for each view, the rank of the last endpoint used of some records, among those that fit, or all without fits. Endpoints that aren't
// ready don't count. have is how many ready endpoints there are besides.
func (w *work) last(records []*record, have int, fits func(*target) bool) []topology.Rank {
	var ready []*target
	for _, r := range records {
		for i := range r.targets {
			if t := &r.targets[i]; t.ready && (fits == nil || fits(t)) {
				ready = append(ready, t)
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

// Apart reports whether a cluster is in another network than this one, so that only its external addresses lead to it (D80).
func (in *Input) Apart(cluster string) bool {
	return cluster != in.Cluster && in.Members[cluster].Apart(in.Members[in.Cluster])
}

// Inside returns the networks of the clusters that are in the same network as own, in which no external address of another network's
// cluster may be (D82).
func Inside(own *clustersetv1alpha1.MemberCluster, members iter.Seq[*clustersetv1alpha1.MemberCluster]) (all []netip.Prefix) {
	for m := range members {
		if !m.Apart(own) && !m.Left() {
			all = append(all, api.Networks(m.Spec.CIDRs)...)
		}
	}
	return all
}

// byNetwork leaves out the records that mean nothing here: external addresses of clusters of this network, and the pods of those of others
// (D81). A headless service has none of clusters of others, even if one exports it with a ClusterIP and addresses (D86).
func (in *Input) byNetwork(headless bool) {
	other := func(e *door.Endpoints) bool {
		return e.Usable && (e.External != in.Apart(e.Cluster) || e.External && headless)
	}
	if slices.ContainsFunc(in.Endpoints, other) {
		in.Endpoints = slices.DeleteFunc(slices.Clone(in.Endpoints), other)
	}
}

// notExternal reports whether an address can't be used as an external one of a cluster of another network, and counts it (D82).
func (c *cluster) notExternal(left *api.LeftOut) func(netip.Addr) bool {
	path := field.NewPath("spec", "endpoints")
	if len(c.external) == 0 {
		return func(addr netip.Addr) bool {
			left.Add(func() *field.Error {
				return field.Invalid(path, addr.String(), "can't be used from another network until an administrator of the hub sets spec.externalCIDRs of the cluster's MemberCluster")
			})
			return true
		}
	}
	beyond := merge.Outside(path, c.external, "spec.externalCIDRs of MemberCluster "+c.name, left)
	return func(addr netip.Addr) bool {
		if beyond(addr) {
			return true
		}
		if !slices.ContainsFunc(c.forbidden, func(p netip.Prefix) bool { return p.Contains(addr) }) {
			return false
		}
		left.Add(func() *field.Error {
			return field.Invalid(path, addr.String(), "is an address of this network: a cluster of another one can't lead traffic there")
		})
		return true
	}
}
