package merge

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/policy"
)

// MaxSlices is the maximum number of ExportedEndpoints of one cluster that are imported for a service: 100,000 endpoints. Each becomes
// an EndpointSlice in every member. Without a limit, one member could fill the etcd of all others.
const MaxSlices = 1000

// Export is one cluster's export of a service, ready to be merged.
type Export struct {
	// Cluster is the member whose namespace on the hub has the record. RBAC decides who can write there. The record's own statements
	// about its origin are ignored.
	Cluster string
	// Service is a sanitized record with a valid policy. This package doesn't change it.
	Service *clustersetv1alpha1.ExportedService
	// Joined is the time when the cluster joined the set. The export counts as no older than that.
	Joined time.Time
}

// Joined returns the time when a record's cluster joined the set. With the zero time, the record's own time counts.
type Joined func(cluster string, record *clustersetv1alpha1.ExportedService) time.Time

// JoinedBy returns the time in the MemberCluster, or the record's creation time on the hub if there is no MemberCluster.
func JoinedBy(member func(cluster string) *clustersetv1alpha1.MemberCluster) Joined {
	return func(cluster string, record *clustersetv1alpha1.ExportedService) time.Time {
		if m := member(cluster); m != nil {
			return m.JoinedAt()
		}
		return record.CreationTimestamp.Time
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
	// Values are what was left out of it: how much, and the first errors.
	Values api.LeftOut
}

// String returns the drop in one line, for a log or an Event.
func (d Drop) String() string {
	return fmt.Sprintf("%s %s of cluster %q: %v", d.Kind, d.Record, d.Cluster, d.Values)
}

// Sanitize returns the exports in the records, ordered by cluster, and what was left out. Only the first record of each cluster
// counts: names on the hub are unique, so a second record is a mistake of the caller. Withdrawn ones are no exports. The records are not changed. joined may be nil.
func Sanitize(records []*clustersetv1alpha1.ExportedService, joined Joined) ([]Export, []Drop) {
	var exports []Export
	var drops []Drop
	for _, record := range inOrder(records) {
		cluster, ok := record.SourceCluster()
		if !ok {
			drops = append(drops, strayRecord("ExportedService", record.Namespace, record.Name))
			continue
		}
		if record.Spec.Withdrawn {
			continue
		}
		clean, left := record.Sanitized()
		if clean != nil {
			stated, wrong := policy.FromExport(clean.Spec.Policy, field.NewPath("spec", "policy"))
			clean.Spec.Policy = policy.Export(stated) // in its canonical form
			left.Append(api.Left(wrong...))
		}
		second := clean != nil && len(exports) > 0 && exports[len(exports)-1].Cluster == cluster
		if second {
			left.Append(api.Left(field.Duplicate(field.NewPath("metadata", "namespace"), record.Namespace)))
		}
		if left.Count > 0 {
			drops = append(drops, Drop{cluster, "ExportedService", record.Name, left})
		}
		if clean == nil || second {
			continue
		}
		e := Export{Cluster: cluster, Service: clean}
		if joined != nil {
			e.Joined = joined(cluster, record)
		}
		exports = append(exports, e)
	}
	return exports, drops
}

// SanitizeEndpoints calls sanitized for each record that can be imported, ordered by cluster and name, and returns what was left out.
// sanitized returns what had to be left out of a record, which the caller may have computed before. It is called for at most MaxSlices records of a cluster. The records are not changed.
func SanitizeEndpoints(
	records []*clustersetv1alpha1.ExportedEndpoints,
	sanitized func(cluster string, record *clustersetv1alpha1.ExportedEndpoints) api.LeftOut,
) (drops []Drop) {
	of, seen := "", 0
	for _, record := range inOrder(records) {
		cluster, ok := record.SourceCluster()
		if !ok {
			drops = append(drops, strayRecord("ExportedEndpoints", record.Namespace, record.Name))
			continue
		}
		if cluster != of {
			of, seen = cluster, 0
		}
		seen++
		switch {
		case seen <= MaxSlices:
			if left := sanitized(cluster, record); left.Count > 0 {
				drops = append(drops, Drop{cluster, "ExportedEndpoints", record.Name, left})
			}
		case seen == MaxSlices+1:
			drops = append(drops, Drop{
				cluster, "ExportedEndpoints", record.Name,
				api.Left(field.TooMany(field.NewPath("metadata", "name"), seen, MaxSlices)),
			})
		default:
			drops[len(drops)-1].Values.Count++
		}
	}
	return drops
}

// inOrder sorts records by cluster and name.
func inOrder[T metav1.Object](records []T) []T {
	return slices.SortedFunc(slices.Values(records), func(a, b T) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
}

func strayRecord(kind, namespace, name string) Drop {
	return Drop{"", kind, name, api.Left(field.Invalid(field.NewPath("metadata", "namespace"), namespace,
		"must be a member's namespace, "+api.MemberNamespace("<cluster>")))}
}
