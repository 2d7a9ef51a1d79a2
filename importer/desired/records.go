package desired

import (
	"cmp"
	"net/netip"
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/merge"
	"github.com/clusterset/clusterset/internal/topology"
)

// record is what is remembered of an ExportedEndpoints: everything that the rest of the service depends on, and the slices built
// from it. A changed ExportedEndpoints gets a new record.
type record struct {
	namespace, name string
	version         Version
	cluster         *cluster // nil if its ExportedService is gone or hasn't arrived yet

	usable bool
	left   api.LeftOut // with the first error only

	slice     string // the name of the EndpointSlice that it becomes
	family    discoveryv1.AddressType
	ports     []discoveryv1.EndpointPort // the service's, that its endpoints listen on
	endpoints int
	ready     int
	best      []tally // for each view; nil if kube-proxy must not use it

	// clusterIP is set if this isn't a record but a cluster's ClusterIP, and external if it has the external addresses of a cluster's Service.
	// Both lead to the ready endpoints behind.
	clusterIP, external bool
	behind              int

	export string // its cluster's, if its slice stores it
	told   string // how kube-proxy was told to use the pieces; empty if they can't be reused
	pieces []piece

	// Of one computation.
	raw     *clustersetv1alpha1.ExportedEndpoints
	content []discoveryv1.Endpoint
}

// piece is an EndpointSlice that a record became.
type piece struct {
	name  string
	found Version // the version that was found to be as desired
}

// built is the piece of a record that a slice is for.
type built struct {
	record *record
	piece  int
}

// tally is the best rank among a record's ready endpoints, and how many addresses have it.
type tally struct {
	rank topology.Rank
	n    int
}

// admit sets w.records to the importable records of endpoints, ordered by cluster and name, and returns what was left out.
func (w *work) admit() []merge.Drop {
	drops := merge.SanitizeEndpoints(w.in.Endpoints, func(name string, e *clustersetv1alpha1.ExportedEndpoints) api.LeftOut {
		r := w.record(find(w.memory.clusters, name), name, e)
		if r.usable && r.cluster != nil {
			w.records = append(w.records, r)
			r.store()
			*r.cluster.ready.of(r.family) += r.readyPods()
		}
		return r.left
	})
	return append(slices.Clone(w.drops), drops...)
}

// leadsToService reports whether the addresses are those of another cluster's Service, and not of endpoints.
func (r *record) leadsToService() bool { return r.clusterIP || r.external }

// readyPods returns how many ready endpoints are reached.
func (r *record) readyPods() int {
	if r.external && r.ready > 0 {
		return max(1, r.behind)
	}
	return r.ready
}

// record returns the remembered record of endpoints, or builds it.
func (w *work) record(c *cluster, name string, e *clustersetv1alpha1.ExportedEndpoints) *record {
	all := &w.memory.records
	at, known := slices.BinarySearchFunc(*all, e, func(r *record, e *clustersetv1alpha1.ExportedEndpoints) int {
		return cmp.Or(cmp.Compare(r.namespace, e.Namespace), cmp.Compare(r.name, e.Name))
	})
	if !known {
		*all = slices.Insert(*all, at, &record{})
	}
	r := (*all)[at]
	if !known || r.cluster != c || !r.version.Same(VersionOf(e)) {
		r = &record{namespace: e.Namespace, name: e.Name, version: VersionOf(e), cluster: c}
		(*all)[at], w.memory.changed = r, true
		clean, left := e.Sanitized()
		r.usable = clean != nil
		if r.usable && c != nil {
			left.Append(w.derive(r, clean))
			r.slice = SliceName(name, w.in.Key.Name, e.Name)
		}
		r.left = left.First()
	}
	r.raw = e
	return r
}

// derive fills in the record, and returns what is outside the cluster's networks.
func (w *work) derive(r *record, clean *clustersetv1alpha1.ExportedEndpoints) (left api.LeftOut) {
	r.content, left = w.prepare(r.cluster, clean)
	r.family, r.ports = clean.Spec.AddressType, renamed(clean.Spec.Ports, r.cluster.ports, r.cluster.former)
	r.external, r.behind, r.endpoints = clean.Spec.External, int(clean.Spec.Behind), len(r.content)
	for i := range r.content {
		if isReady(&r.content[i]) {
			r.ready++
		}
	}
	if w.routes(r.cluster) {
		r.best = w.tallies(w.targets(r))
	}
	return left
}

// prepare returns the endpoints of a sanitized record in the imported form, and what is outside the cluster's networks.
func (w *work) prepare(c *cluster, clean *clustersetv1alpha1.ExportedEndpoints) (endpoints []discoveryv1.Endpoint, left api.LeftOut) {
	switch {
	case c.apart:
		merge.ConfineEndpoints(clean, c.notExternal(&left))
	case len(c.cidrs) > 0:
		merge.ConfineEndpoints(clean, merge.Outside(field.NewPath("spec", "endpoints"), c.cidrs, merge.CIDRsOf(c.name), &left))
	}
	endpoints = make([]discoveryv1.Endpoint, len(clean.Spec.Endpoints))
	for i := range clean.Spec.Endpoints {
		endpoints[i] = clean.Spec.Endpoints[i].InSlice()
	}
	return w.placed(c, endpoints), left
}

// endpointsOf returns a record's endpoints in the imported form.
func (w *work) endpointsOf(r *record) []discoveryv1.Endpoint {
	if r.content == nil && r.endpoints > 0 {
		clean, _ := r.raw.Sanitized()
		r.content, _ = w.prepare(r.cluster, clean)
	}
	return r.content
}

// targets returns a record's endpoints in the form that ranking needs.
func (w *work) targets(r *record) []target {
	endpoints := w.endpointsOf(r)
	targets := make([]target, len(endpoints))
	for i := range endpoints {
		e := &endpoints[i]
		targets[i] = targetOf(r.cluster, e.Addresses[0], e.Zone, isReady(e))
		targets[i].ClusterIP, targets[i].Behind = r.leadsToService(), r.behind
		if r.external {
			targets[i].Addr = targets[0].Addr // all lead to the same endpoints, which count once
		}
	}
	return targets
}

// tallies counts for each view the endpoints of the best rank.
func (w *work) tallies(targets []target) []tally {
	views := w.views()
	all := make([]tally, len(views))
	var same []netip.Addr
	for i := range views {
		all[i].rank = topology.Gone
		same = same[:0]
		for j := range targets {
			if !targets[j].ready {
				continue
			}
			rank := views[i].Rank(&targets[j].Endpoint)
			if rank > all[i].rank {
				continue
			}
			if rank < all[i].rank {
				all[i].rank, same = rank, same[:0]
			}
			same = append(same, targets[j].Addr)
		}
		slices.SortFunc(same, netip.Addr.Compare)
		if all[i].n = len(slices.Compact(same)); all[i].n == 1 {
			all[i].n = max(1, targets[0].Behind)
		}
	}
	return all
}
