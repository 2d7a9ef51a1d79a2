package merge

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
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
