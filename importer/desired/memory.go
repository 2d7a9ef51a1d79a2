package desired

import (
	"cmp"
	"net/netip"
	"reflect"
	"slices"
	"sync/atomic"
	"time"
	"unsafe"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
	"github.com/clusterset/clusterset/internal/merge"
	"github.com/clusterset/clusterset/internal/topology"
)

// Memory keeps parts of the last computation for a service, so that the cost of the next one depends only on what changed: one
// record's endpoints, for example, instead of those of 250 clusters. It doesn't affect the result.
//
// It holds a few hundred bytes per record, and no endpoints: an existing slice that was found to be as desired is reused until its
// record, or something else that it depends on, changes. The zero value is empty. Only one goroutine may use it at a time.
type Memory struct {
	scope    scope
	merged   *merged
	clusters []*cluster                           // sorted by name
	records  []*record                            // sorted by namespace and name
	extends  *extends                             // nil unless this cluster's own Service asks for that
	built    map[*discoveryv1.EndpointSlice]built // of the last output, until it is found here
	changed  bool                                 // whether the last computation was of something else than the one before

	global      *fabedgev1alpha1.GlobalService // as it should be, until it was found here
	globalOf    *merged
	globalFound Version // what was found to be so
	shares      []share // of it, sorted by cluster
}

// Version identifies a version of an object in a cache. The resource version isn't enough, because an API server that was restored
// from a backup assigns the same ones again. But each decoded object has its resource version in memory of its own, and no other object has it
// there while it is referenced.
type Version string

// VersionOf returns an object's version.
func VersionOf(o metav1.Object) Version { return Version(o.GetResourceVersion()) }

// Same is false if there is no resource version.
func (v Version) Same(o Version) bool {
	return v != "" && v == o && unsafe.StringData(string(v)) == unsafe.StringData(string(o)) //nolint:gosec // only compared
}

// scope is what everything depends on.
type scope struct {
	key          types.NamespacedName
	path         DataPath
	self         string
	vip, unzoned bool
	views        []topology.View
}

func (s scope) equal(o scope) bool {
	return s.key == o.key && s.path == o.path && s.self == o.self && s.vip == o.vip && s.unzoned == o.unzoned && sameViews(s.views, o.views)
}

func sameViews(a, b []topology.View) bool {
	return slices.EqualFunc(a, b, func(a, b topology.View) bool {
		return a.Self == b.Self && a.UseExpired == b.UseExpired && a.Policy.Equal(b.Policy)
	})
}

var lastViews atomic.Pointer[[]topology.View]

// shareViews returns the views that another service has, if they are the same: those of most services are.
func shareViews(views []topology.View) []topology.View {
	if last := lastViews.Load(); last != nil && sameViews(*last, views) {
		return *last
	}
	lastViews.Store(&views)
	return views
}

// extends is what the slices that extend this cluster's own Service depend on besides.
type extends struct {
	service           Version
	own               *Own
	allowed, excluded bool
}

func (e *extends) equal(o *extends) bool {
	if e == nil || o == nil {
		return e == o
	}
	return e.service.Same(o.service) && e.own == o.own && e.allowed == o.allowed && e.excluded == o.excluded
}

// merged is the result of merging the exports of all clusters.
type merged struct {
	of       []mergedOf
	resolved merge.Resolved
	offers   []offer      // sorted by cluster
	drops    []merge.Drop // with the first error of each only
}

// mergedOf is what merging depends on: a record and what is known of its cluster.
type mergedOf struct {
	version Version
	joined  time.Time
	leftOut bool
	apart   bool
	cidrs   []string
	ips     []string // which localFirst replaces
}

// offer is a cluster's ClusterIPs, and its whole export as a slice stores it.
type offer struct {
	cluster string
	ips     []string
	export  string
}

func (m *merged) offer(cluster string) offer {
	i, ok := slices.BinarySearchFunc(m.offers, cluster, func(o offer, name string) int { return cmp.Compare(o.cluster, name) })
	if !ok {
		return offer{}
	}
	return m.offers[i]
}

// merge merges the exports, unless they are the same as last time.
func (m *Memory) merge(in *Input) *merged {
	records := slices.SortedFunc(slices.Values(in.Services), func(a, b *clustersetv1alpha1.ExportedService) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	of := make([]mergedOf, len(records))
	visible := merge.Visible(in.Cluster, in.memberCluster)
	for i, r := range records {
		of[i].version, of[i].ips = VersionOf(r), r.Spec.ClusterIPs
		if cluster, ok := r.SourceCluster(); ok {
			of[i].joined, of[i].leftOut = in.joined(cluster, r), in.Capped[cluster] || !visible(cluster, r)
			of[i].apart, of[i].cidrs = in.Apart(cluster), in.cidrs(cluster)
		}
	}
	if m.merged != nil && slices.EqualFunc(m.merged.of, of, func(a, b mergedOf) bool {
		return a.version.Same(b.version) && a.joined.Equal(b.joined) && a.leftOut == b.leftOut && a.apart == b.apart && slices.Equal(a.cidrs, b.cidrs) && slices.Equal(a.ips, b.ips)
	}) {
		return m.merged
	}

	exports, drops := merge.Sanitize(records, in.joined)
	exports = slices.DeleteFunc(exports, func(e merge.Export) bool { return !visible(e.Cluster, e.Service) })
	exports = slices.DeleteFunc(exports, func(e merge.Export) bool {
		if in.Capped[e.Cluster] {
			drops = append(drops, merge.Drop{Cluster: e.Cluster, Kind: "ExportedService", Record: e.Service.Name, Values: api.Left(beyondCap)})
		}
		return in.Capped[e.Cluster]
	})
	now := &merged{of: of, resolved: merge.Resolve(exports)}
	for _, e := range exports {
		ips := e.Service.Spec.ClusterIPs
		if in.Apart(e.Cluster) {
			ips = nil
		} else if cidrs := in.cidrs(e.Cluster); len(cidrs) > 0 {
			var left api.LeftOut
			// That none is inside is no mistake: clusters with the same Service range don't declare it (docs/networks.md).
			if ips, left = merge.ConfineIPs(e.Cluster, cidrs, e.Service); left.Count > 0 && len(ips) > 0 {
				drops = append(drops, merge.Drop{Cluster: e.Cluster, Kind: "ExportedService", Record: e.Service.Name, Values: left})
			}
		}
		now.offers = append(now.offers, offer{e.Cluster, ips, storedExport(e.Service)})
	}
	for i := range drops {
		drops[i].Values = drops[i].Values.First()
	}
	now.drops = drops
	if was := m.merged; was != nil && len(was.drops)+len(now.drops) == 0 &&
		reflect.DeepEqual(was.resolved, now.resolved) && reflect.DeepEqual(was.offers, now.offers) {
		was.of = of // other objects with the same content
		return was
	}
	return now
}

// beyondCap is why a cluster's export isn't imported although it could be.
var beyondCap = field.Forbidden(field.NewPath("spec"), "the cluster exports more services than are imported of one (--max-services)")

// cluster holds what a cluster's endpoints depend on.
type cluster struct {
	name   string
	ports  []merge.Port // that it exposes exactly
	former []merge.Port // those of them that have a new name, under the former one
	member topology.Member
	cidrs  []string
	own    *Own // of this cluster
	// Of a cluster of another network (apart): where its external addresses may be, and where not.
	apart     bool
	external  []string
	forbidden []netip.Prefix
	export    string

	// Of one computation.
	ready  readyEndpoints
	stored bool // a record's slice stores the export
}

// readyEndpoints counts a cluster's ready endpoints by family. A map for each cluster of each service would take 6 MiB at 250 clusters.
type readyEndpoints struct{ ipv4, ipv6 int }

func (r *readyEndpoints) of(family discoveryv1.AddressType) *int {
	if family == discoveryv1.AddressTypeIPv6 {
		return &r.ipv6
	}
	return &r.ipv4
}

func (c *cluster) equal(o *cluster) bool {
	same := func(a, b merge.Port) bool {
		return a.Name == b.Name && a.ExportedName == b.ExportedName && a.Protocol == b.Protocol && a.Port == b.Port
	}
	return c.name == o.name && c.own == o.own && c.export == o.export && c.member.Equal(o.member) && slices.Equal(c.cidrs, o.cidrs) &&
		c.apart == o.apart && slices.Equal(c.external, o.external) && slices.Equal(c.forbidden, o.forbidden) &&
		slices.EqualFunc(c.ports, o.ports, same) && slices.EqualFunc(c.former, o.former, same)
}

// anyReady reports whether the cluster has a ready endpoint.
func (c *cluster) anyReady() bool { return c.ready != readyEndpoints{} }

func find(clusters []*cluster, name string) *cluster {
	i, ok := slices.BinarySearchFunc(clusters, name, func(c *cluster, name string) int { return cmp.Compare(c.name, name) })
	if !ok {
		return nil
	}
	return clusters[i]
}

// begin records the state of the clusters that export the service, and drops remembered results that are outdated. own is the state of the
// service in this cluster, whether it exports it or not.
func (m *Memory) begin(w *work, own *Own) {
	now := make([]*cluster, len(w.resolved.Clusters))
	var asks *extends
	if e := w.in.Extended; e != nil {
		asks = &extends{VersionOf(e.Service), own, e.Allowed, e.Excluded}
	}
	m.changed = m.merged != w.merged || len(m.clusters) != len(now) || !m.extends.equal(asks)
	m.merged, m.built, m.extends = w.merged, nil, asks
	former := w.formerPorts()
	for i, name := range w.resolved.Clusters {
		c := cluster{name: name, ports: w.exposed(name), member: w.in.member(name), export: w.offer(name).export}
		for _, p := range former {
			if p.ExposedBy(name) {
				c.former = append(c.former, p)
			}
		}
		c.apart, c.cidrs = w.in.Apart(name), w.in.cidrs(name)
		if member := w.in.Members[name]; member != nil && c.apart {
			c.external, c.forbidden = member.Spec.ExternalCIDRs, w.in.Forbidden
		}
		if w.isOwn(name) {
			c.own = w.in.Own
		}
		if now[i] = find(m.clusters, name); now[i] == nil || !now[i].equal(&c) {
			fresh := c // c itself needs no allocation
			now[i], m.changed = &fresh, true
		}
		now[i].ready, now[i].stored = readyEndpoints{}, false
	}
	m.clusters = now
	s := scope{key: w.in.Key, path: w.in.DataPath, self: w.in.Cluster, vip: w.hasVIP(), unzoned: w.in.unzoned(), views: w.views()}
	if !m.scope.equal(s) {
		s.views = shareViews(s.views)
		m.scope, m.records, m.changed = s, nil, true
	}
}

// Changed reports whether the last computation was of other records, clusters, places or own objects than the one before, or is the first. If it
// wasn't, what it wants is the same, and an object that differs was changed by somebody else, or can't be written yet.
func (m *Memory) Changed() bool { return m.changed }

// end drops what was only needed for this computation, and records that are gone.
func (m *Memory) end() {
	before := len(m.records)
	m.records = slices.DeleteFunc(m.records, func(r *record) bool { return r.raw == nil })
	m.changed = m.changed || len(m.records) < before
	for _, r := range m.records {
		r.raw, r.content = nil, nil
	}
}

// FoundSlice records that an existing slice is as the last output wants it.
func (m *Memory) FoundSlice(want, here *discoveryv1.EndpointSlice) {
	b, ok := m.built[want]
	if !ok {
		return
	}
	m.settle(want, VersionOf(here))
	if export := here.Annotations[api.AnnotationExport]; export != "" && export == b.record.export {
		m.share(b.record, export)
	}
}

// written is in place of the version of a slice that was written as it should be, until the cache has it.
const written Version = "-"

// WroteSlice records that a slice of the last output was written.
func (m *Memory) WroteSlice(want *discoveryv1.EndpointSlice) {
	if _, ok := m.built[want]; ok {
		m.settle(want, written)
	}
}

// ShownSlice records the version with which the cache shows a slice as it was written last.
func (m *Memory) ShownSlice(name string, version Version) {
	for _, r := range m.records {
		for i := range r.pieces {
			if p := &r.pieces[i]; p.name == name && p.found == written {
				p.found = version
			}
		}
	}
}

// settle records what a slice of the last output is here, and drops the slice, which holds its endpoints.
func (m *Memory) settle(want *discoveryv1.EndpointSlice, found Version) {
	b := m.built[want]
	b.record.pieces[b.piece].found = found
	delete(m.built, want)
	if len(m.built) == 0 {
		m.built = nil
	}
}

// share makes what is remembered of a record and its cluster hold the export in the slice's memory.
func (m *Memory) share(r *record, export string) {
	r.export = export
	if r.cluster.export != export {
		return
	}
	r.cluster.export = export
	for i := range m.merged.offers {
		if o := &m.merged.offers[i]; o.cluster == r.cluster.name && o.export == export {
			o.export = export
		}
	}
}

// FoundGlobal records that the existing GlobalService is as the last output wants it.
func (m *Memory) FoundGlobal(here *fabedgev1alpha1.GlobalService) {
	m.global, m.globalFound = nil, VersionOf(here)
}

// HasFoundGlobal reports whether FoundGlobal has been called for this GlobalService since it should be another one.
func (m *Memory) HasFoundGlobal(here *fabedgev1alpha1.GlobalService) bool {
	return here != nil && m.globalFound.Same(VersionOf(here))
}
