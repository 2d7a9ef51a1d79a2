package desired

import (
	"cmp"
	"reflect"
	"slices"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
	"github.com/clusterset/clusterset/internal/merge"
	"github.com/clusterset/clusterset/internal/topology"
)

// Memory is what is kept of the last computation for one service, so that the next costs what has changed since: one record's
// endpoints, say, and not those of 250 clusters. It doesn't change what comes out.
//
// It holds a few hundred bytes for each record, and no endpoints: a slice that was found here as it should be stands for itself until
// its record changes, or something else that it depends on. The zero value remembers nothing. It is for one goroutine at a time.
type Memory struct {
	scope    scope
	merged   *merged
	clusters []*cluster // sorted by name
	records  map[types.NamespacedName]*record
	built    map[*discoveryv1.EndpointSlice]*piece // of the last output, until it is found here

	global      *fabedgev1alpha1.GlobalService // as it should be
	globalOf    *merged
	globalFound Version // what was found to be so
	shares      []share // of it, sorted by cluster
}

// Version tells two versions of a cache's object apart. An API server that was set back gives resource versions a second time; but
// whatever is decoded has a map of its own for its labels, which no other can be as long as it is kept.
type Version struct {
	resource string
	labels   map[string]string
}

// VersionOf returns an object's.
func VersionOf(o metav1.Object) Version { return Version{o.GetResourceVersion(), o.GetLabels()} }

// Same is false where there are no labels to tell.
func (v Version) Same(o Version) bool {
	return v.labels != nil && o.labels != nil && v.resource == o.resource &&
		reflect.ValueOf(v.labels).Pointer() == reflect.ValueOf(o.labels).Pointer()
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
	return s.key == o.key && s.path == o.path && s.self == o.self && s.vip == o.vip && s.unzoned == o.unzoned &&
		slices.EqualFunc(s.views, o.views, func(a, b topology.View) bool {
			return a.Self == b.Self && a.UseExpired == b.UseExpired && a.Policy.Equal(b.Policy)
		})
}

// merged is what the exports of all clusters come to.
type merged struct {
	of       []mergedOf
	resolved merge.Resolved
	offers   []offer // sorted by cluster
	drops    []merge.Drop
	confined []merge.Drop // sorted by cluster
}

// mergedOf is what merging depends on: a record and what is known of its cluster.
type mergedOf struct {
	version Version
	joined  time.Time
	capped  bool
	cidrs   []string
	ips     []string // which localFirst replaces
}

// offer is a cluster's ClusterIPs.
type offer struct {
	cluster string
	ips     []string
}

func (m *merged) offer(cluster string) []string {
	i, ok := slices.BinarySearchFunc(m.offers, cluster, func(o offer, name string) int { return cmp.Compare(o.cluster, name) })
	if !ok {
		return nil
	}
	return m.offers[i].ips
}

// merge merges the exports, unless they are those of the last time.
func (m *Memory) merge(in *Input) *merged {
	records := slices.SortedFunc(slices.Values(in.Services), func(a, b *clustersetv1alpha1.ExportedService) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	of := make([]mergedOf, len(records))
	for i, r := range records {
		of[i].version, of[i].ips = VersionOf(r), r.Spec.ClusterIPs
		if cluster, ok := r.SourceCluster(); ok {
			of[i].joined, of[i].capped = in.joined(cluster, r), in.Capped[cluster]
			if member := in.Members[cluster]; member != nil {
				of[i].cidrs = member.Spec.CIDRs
			}
		}
	}
	if m.merged != nil && slices.EqualFunc(m.merged.of, of, func(a, b mergedOf) bool {
		return a.version.Same(b.version) && a.joined.Equal(b.joined) && a.capped == b.capped && slices.Equal(a.cidrs, b.cidrs) && slices.Equal(a.ips, b.ips)
	}) {
		return m.merged
	}

	exports, drops := merge.Sanitize(records, in.joined)
	exports = slices.DeleteFunc(exports, func(e merge.Export) bool { return in.Capped[e.Cluster] })
	now := &merged{of: of, resolved: merge.Resolve(exports), drops: drops}
	for _, e := range exports {
		ips := e.Service.Spec.ClusterIPs
		if member := in.Members[e.Cluster]; member != nil && len(member.Spec.CIDRs) > 0 {
			ips = confineIPs(e.Cluster, member.Spec.CIDRs, e.Service, &now.confined)
		}
		now.offers = append(now.offers, offer{e.Cluster, ips})
	}
	if was := m.merged; was != nil && len(was.drops)+len(was.confined)+len(now.drops)+len(now.confined) == 0 &&
		reflect.DeepEqual(was.resolved, now.resolved) && reflect.DeepEqual(was.offers, now.offers) {
		was.of = of // it says the same in other words
		return was
	}
	return now
}

// cluster is what a cluster's endpoints come to depends on.
type cluster struct {
	name   string
	ports  []merge.Port // that it exposes exactly
	member topology.Member
	cidrs  []string
	own    *Own // of this cluster

	ready map[discoveryv1.AddressType]int // endpoints, of this computation
}

func (c *cluster) equal(o *cluster) bool {
	return c.name == o.name && c.own == o.own && c.member.Equal(o.member) && slices.Equal(c.cidrs, o.cidrs) &&
		slices.EqualFunc(c.ports, o.ports, func(a, b merge.Port) bool {
			return a.Name == b.Name && a.ExportedName == b.ExportedName && a.Protocol == b.Protocol && a.Port == b.Port
		})
}

// anyReady says whether the cluster has a ready endpoint.
func (c *cluster) anyReady() bool { return len(c.ready) > 0 }

func find(clusters []*cluster, name string) *cluster {
	i, ok := slices.BinarySearchFunc(clusters, name, func(c *cluster, name string) int { return cmp.Compare(c.name, name) })
	if !ok {
		return nil
	}
	return clusters[i]
}

// begin takes up what is known of the clusters that export the service, and forgets what doesn't hold any more.
func (m *Memory) begin(w *work) {
	m.merged, m.built = w.merged, map[*discoveryv1.EndpointSlice]*piece{}
	now := make([]*cluster, len(w.resolved.Clusters))
	for i, name := range w.resolved.Clusters {
		c := cluster{name: name, ports: w.exposed(name), member: w.in.member(name)}
		if member := w.in.Members[name]; member != nil {
			c.cidrs = member.Spec.CIDRs
		}
		if w.isOwn(name) {
			c.own = w.in.Own
		}
		if now[i] = find(m.clusters, name); now[i] == nil || !now[i].equal(&c) {
			fresh := c // c itself needs no allocation
			now[i] = &fresh
		}
		clear(now[i].ready)
	}
	m.clusters = now
	s := scope{key: w.in.Key, path: w.in.DataPath, self: w.in.Cluster, vip: w.hasVIP(), unzoned: w.in.unzoned(), views: w.views()}
	if m.records == nil || !m.scope.equal(s) {
		m.scope, m.records = s, map[types.NamespacedName]*record{}
	}
}

// end forgets what was only for this computation, and records that are gone.
func (m *Memory) end() {
	for key, r := range m.records {
		if r.raw == nil {
			delete(m.records, key)
		}
		r.raw, r.content = nil, nil
	}
}

// FoundSlice notes that a slice here is what the last output wants it to be.
func (m *Memory) FoundSlice(want, here *discoveryv1.EndpointSlice) {
	if p := m.built[want]; p != nil {
		p.found = VersionOf(here)
		delete(m.built, want) // which holds its endpoints
	}
}

// FoundGlobal notes that the GlobalService here is what the last output wants it to be. It takes the place of the copy that was kept.
func (m *Memory) FoundGlobal(want, here *fabedgev1alpha1.GlobalService) {
	if m.global == want {
		is := *want
		is.Spec.Endpoints = here.Spec.Endpoints
		m.global, m.globalFound = &is, VersionOf(here)
	}
}

// HasFoundGlobal says whether the GlobalService here has been found to be what the last output wants it to be.
func (m *Memory) HasFoundGlobal(want, here *fabedgev1alpha1.GlobalService) bool {
	return here != nil && m.global == want && m.globalFound.Same(VersionOf(here))
}
