// Package merge merges several clusters' exports of a service into one (KEP-1645, "Constraints and Conflict
// Resolution").
//
// It sits between the hub's records, as values of package door, and their readers. The importer of each member turns a Resolved into a
// ServiceImport; the exporter of each member computes the same Resolved from the same records and writes its conflicts
// to its own ServiceExport. No aggregate object has to be kept up to date: the merge is a pure function that doesn't
// depend on the order of its input, so every member gets the same result.
//
//	door.Export    ─ Exports ─► Export ─ Resolve ─► Resolved, with its Conflicts
//	door.Endpoints ─ Endpoints ─► those that can be imported
package merge

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/communities"
	"github.com/clusterset/clusterset/internal/door"
)

// MaxSlices is the maximum number of ExportedEndpoints of one cluster that are imported for a service: 100,000 endpoints. Each becomes
// an EndpointSlice in every member. Without a limit, one member could fill the etcd of all others.
const MaxSlices = 1000

// Export is one cluster's export of a service, ready to be merged.
type Export struct {
	*door.Export
	// Joined is the time when the cluster joined the set. The export counts as no older than that.
	Joined time.Time
}

// Joined returns the time when an export's cluster joined the set. With the zero time, the export's own time counts.
type Joined func(*door.Export) time.Time

// JoinedBy returns the time in the MemberCluster, or the record's creation time on the hub if there is no MemberCluster.
func JoinedBy(member func(cluster string) *clustersetv1alpha1.MemberCluster) Joined {
	return func(e *door.Export) time.Time {
		if m := member(e.Cluster); m != nil {
			return m.JoinedAt()
		}
		return e.Created
	}
}

// Drop is what was left out of a record because it can't be imported. The rest of the record is imported.
type Drop struct {
	// Cluster is the cluster of the record. It is empty if the record is in no member's namespace.
	Cluster string
	// Kind is ExportedService or ExportedEndpoints.
	Kind string
	// Record is the record's name.
	Record string
	// Values are what was left out of it: how much, and the first error.
	Values api.LeftOut
}

// String returns the drop in one line, for a log or an Event.
func (d Drop) String() string {
	return fmt.Sprintf("%s %s of cluster %q: %v", d.Kind, d.Record, d.Cluster, d.Values)
}

// Exports returns what of a service's records can be merged, ordered by cluster, and what was left out. Withdrawn ones are no exports. joined
// may be nil.
func Exports(records []*door.Export, joined Joined) ([]Export, []Drop) {
	exports := make([]Export, 0, len(records))
	var drops []Drop
	for _, e := range slices.SortedFunc(slices.Values(records), func(a, b *door.Export) int { return a.ID().Compare(b.ID()) }) {
		if e.Left.Count > 0 {
			drops = append(drops, Drop{e.Cluster, "ExportedService", e.Name, e.Left})
		}
		if n := len(exports); e.Spec == nil || n > 0 && exports[n-1].Cluster == e.Cluster { // names on the hub are unique
			continue
		}
		export := Export{Export: e}
		if joined != nil {
			export.Joined = joined(e)
		}
		exports = append(exports, export)
	}
	return exports, drops
}

// Endpoints calls use for each record that can be imported, ordered by cluster and name, and returns what was left out. use returns what of a
// usable record can't be imported for another reason than the record itself. It is called for at most MaxSlices records of a cluster.
func Endpoints(records []*door.Endpoints, use func(*door.Endpoints) api.LeftOut) (drops []Drop) {
	of, seen := "", 0
	for _, e := range slices.SortedFunc(slices.Values(records), func(a, b *door.Endpoints) int { return a.ID().Compare(b.ID()) }) {
		if e.Cluster != of {
			of, seen = e.Cluster, 0
		}
		seen++
		left := e.Left
		switch {
		case seen > MaxSlices+1:
			drops[len(drops)-1].Values.Count++
			continue
		case seen > MaxSlices:
			left = api.Left(field.TooMany(field.NewPath("metadata", "name"), seen, MaxSlices))
		case e.Usable:
			if more := use(e); more.Count > 0 {
				left = api.LeftOut{Errors: left.Errors[:len(left.Errors):len(left.Errors)], Count: left.Count}
				left.Append(more)
			}
		}
		if left.Count > 0 {
			drops = append(drops, Drop{e.Cluster, "ExportedEndpoints", e.Name, left.First()})
		}
	}
	return drops
}

// Sight is whether a member imports a cluster's record, and why not.
type Sight int

// The Sights.
const (
	// Seen: it imports it.
	Seen Sight = iota
	// Apart: the two clusters share no community.
	Apart
	// Withheld: the export is for other clusters only (api.AnnotationExportTo).
	Withheld
)

// Words returns the reason for people, in a sentence about the exporting cluster and the member that doesn't see the export.
func (s Sight) Words(exporter, viewer string) string {
	switch s {
	case Apart:
		return fmt.Sprintf("%s exports it, and shares no community with %s", exporter, viewer)
	case Withheld:
		return fmt.Sprintf("%s exports it, but not to %s (%s)", exporter, viewer, api.AnnotationExportTo)
	default:
		return fmt.Sprintf("%s exports it to %s", exporter, viewer)
	}
}

// Sees returns whether a member imports a cluster's export: the two share a community, and the export may be for some members only (exportTo of
// its spec).
// Conflicts are those among the records that a member sees, so that two members can hold two merges of one service.
//
// A MemberCluster that is unknown says nothing about communities: the hub may have lost it.
func Sees(viewer string, member func(cluster string) *clustersetv1alpha1.MemberCluster) func(cluster string, exportTo []string) Sight {
	own := member(viewer)
	return func(cluster string, exportTo []string) Sight {
		if cluster == viewer || own == nil {
			return Seen
		}
		if of := member(cluster); of != nil && !communities.Share(own.Spec.Communities, of.Spec.Communities) {
			return Apart
		}
		if !communities.Allows(exportTo, viewer, own.Spec.Communities) {
			return Withheld
		}
		return Seen
	}
}

// Visible is Sees without the reason.
func Visible(viewer string, member func(cluster string) *clustersetv1alpha1.MemberCluster) func(cluster string, exportTo []string) bool {
	sees := Sees(viewer, member)
	return func(cluster string, exportTo []string) bool {
		return sees(cluster, exportTo) == Seen
	}
}

// ConfineIPs returns those of a cluster's ClusterIPs that are in the networks an administrator gave the cluster on the hub. It
// prevents a member from exporting another member's addresses.
func ConfineIPs(e *door.Export, cidrs []string) (ips []string, left api.LeftOut) {
	beyond := Outside(field.NewPath("spec", "clusterIPs"), cidrs, CIDRsOf(e.Cluster), &left)
	return slices.DeleteFunc(slices.Clone(e.Spec.ClusterIPs), func(ip string) bool {
		addr, err := netip.ParseAddr(ip)
		return err != nil || beyond(addr)
	}), left
}

// ConfineEndpoints returns the endpoints none of whose addresses is beyond. The list isn't changed.
func ConfineEndpoints(all []door.Endpoint, beyond func(netip.Addr) bool) []door.Endpoint {
	// One bad address is enough to drop the endpoint: its addresses all belong to the same backend.
	out := func(e door.Endpoint) bool { return beyond(e.Addr) || slices.ContainsFunc(e.More, beyond) }
	for i := range all {
		if out(all[i]) {
			rest := slices.DeleteFunc(slices.Clone(all[i+1:]), out)
			return append(all[:i:i], rest...)
		}
	}
	return all
}

// CIDRsOf says whose networks they are.
func CIDRsOf(cluster string) string { return "spec.cidrs of MemberCluster " + cluster }

// Outside reports whether an address is in none of a cluster's networks, and counts it.
func Outside(path *field.Path, cidrs []string, where string, left *api.LeftOut) func(netip.Addr) bool {
	networks := api.Networks(cidrs)
	return func(addr netip.Addr) bool {
		if slices.ContainsFunc(networks, func(p netip.Prefix) bool { return p.Contains(addr) }) {
			return false
		}
		left.Add(func() *field.Error {
			return field.Invalid(path, addr.String(), "must lie in "+where+" on the hub, "+shortened(cidrs)+": correct them if the address is right")
		})
		return true
	}
}

// shortened returns networks for a message: it is kept for each record, and a cluster can have many.
func shortened(cidrs []string) string {
	const shown = 4
	if len(cidrs) <= shown {
		return strings.Join(cidrs, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(cidrs[:shown], ", "), len(cidrs)-shown)
}

// Confined counts what the networks of a cluster (cidrs of its MemberCluster, sanitized) leave out of what it exports.
type Confined struct {
	CIDRs                []string
	endpoints, ips       int // left out
	allEndpoints, allIPs int
	example              string // the first address that is left out, and its service
}

// Add counts a record of the cluster. External addresses are confined by other networks, externalCIDRs.
func (c *Confined) Add(record runtime.Object) {
	switch r := record.(type) {
	case *clustersetv1alpha1.ExportedService:
		c.AddExport(door.CompactService(r, time.Now()))
	case *clustersetv1alpha1.ExportedEndpoints:
		c.AddEndpoints(door.CompactEndpoints(r))
	}
}

// AddExport is Add for a value.
func (c *Confined) AddExport(e *door.Export) {
	if e.Spec != nil {
		_, left := ConfineIPs(e, c.CIDRs)
		c.ips, c.allIPs = c.ips+left.Count, c.allIPs+len(e.Spec.ClusterIPs)
		c.noteExample(left, e.Key)
	}
}

// AddEndpoints is Add for a value.
func (c *Confined) AddEndpoints(e *door.Endpoints) {
	if e.Usable && !e.External {
		var left api.LeftOut
		ConfineEndpoints(e.Endpoints, Outside(nil, c.CIDRs, "", &left))
		c.endpoints, c.allEndpoints = c.endpoints+left.Count, c.allEndpoints+len(e.Endpoints)
		c.noteExample(left, e.Key)
	}
}

func (c *Confined) noteExample(left api.LeftOut, of types.NamespacedName) {
	if c.example == "" && left.Count > 0 {
		c.example = fmt.Sprintf("%v of %s", left.Errors[0].BadValue, of)
	}
}

// String says what is left out, empty if nothing is. Nor is it worth a word that ClusterIPs aren't among the networks at all: those of clusters
// with the same range must not be, and traffic can do without them.
func (c *Confined) String() string {
	var parts []string
	if c.endpoints > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d endpoints", c.endpoints, c.allEndpoints))
	}
	if c.ips > 0 && (c.endpoints > 0 || c.ips < c.allIPs) {
		parts = append(parts, fmt.Sprintf("%d of %d ClusterIPs", c.ips, c.allIPs))
	}
	if len(c.CIDRs) == 0 || len(parts) == 0 {
		return ""
	}
	return fmt.Sprintf("spec.cidrs leaves out %s that it exports, such as %s; other clusters don't use them", strings.Join(parts, " and "), c.example)
}
