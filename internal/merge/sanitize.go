package merge

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/policy"
)

// MaxSlices is the most ExportedEndpoints of one cluster that one service is imported with: 100,000 endpoints. Each
// becomes an EndpointSlice in every member, so that without a limit one member could fill everyone's etcd.
const MaxSlices = 1000

// Export is one cluster's export of a service, fit to be merged.
type Export struct {
	// Cluster is the member in whose namespace on the hub the record lies. RBAC decides who writes there; what the
	// payload says about its origin counts for nothing.
	Cluster string
	// Service is a Sanitized record with a policy that can be obeyed. Nothing in this package changes it.
	Service *clustersetv1alpha1.ExportedService
	// Joined is when the cluster joined the set. The export counts as no older than that, whatever it claims.
	Joined time.Time
}

// Joined returns when the cluster that a record comes from joined the set. The zero time takes the record at its word.
type Joined func(cluster string, record *clustersetv1alpha1.ExportedService) time.Time

// JoinedBy returns what the MemberClusters say; of a cluster that has none, that it joined when the hub got the record.
func JoinedBy(member func(cluster string) *clustersetv1alpha1.MemberCluster) Joined {
	return func(cluster string, record *clustersetv1alpha1.ExportedService) time.Time {
		if m := member(cluster); m != nil {
			return m.JoinedAt()
		}
		return record.CreationTimestamp.Time
	}
}

// Drop is one thing that was left out of a record because it can't be imported. The rest of the record still is.
type Drop struct {
	// Cluster is whose record it is, empty where the record lies in no member's namespace.
	Cluster string
	// Kind is ExportedService or ExportedEndpoints.
	Kind string
	// Record is the record's name.
	Record string
	// Err says which field, what was in it and what would be right.
	Err *field.Error
}

// String says the drop in one line, for a log or an Event.
func (d Drop) String() string {
	return fmt.Sprintf("%s %s of cluster %q: %v", d.Kind, d.Record, d.Cluster, d.Err)
}

// Sanitize returns what can be merged of the records, and what was left out. The exports come in order of their clusters,
// each cluster's first record alone: names on the hub are unique, so that a second one could only be someone's mistake in
// collecting them. The records are not changed. joined may be nil.
func Sanitize(records []*clustersetv1alpha1.ExportedService, joined Joined) ([]Export, []Drop) {
	records = slices.SortedFunc(slices.Values(records), func(a, b *clustersetv1alpha1.ExportedService) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	var exports []Export
	var drops []Drop
	for _, record := range records {
		cluster, ok := record.SourceCluster()
		if !ok {
			drops = append(drops, strayRecord("ExportedService", record.Namespace, record.Name))
			continue
		}
		clean, errs := record.Sanitized()
		if clean != nil {
			stated, wrong := policy.FromExport(clean.Spec.Policy, field.NewPath("spec", "policy"))
			clean.Spec.Policy = policy.Export(stated) // in the one way to say it
			errs = append(errs, wrong...)
		}
		for _, err := range errs {
			drops = append(drops, Drop{cluster, "ExportedService", record.Name, err})
		}
		if clean == nil {
			continue
		}
		if len(exports) > 0 && exports[len(exports)-1].Cluster == cluster {
			drops = append(drops, Drop{
				cluster, "ExportedService", record.Name,
				field.Duplicate(field.NewPath("metadata", "namespace"), record.Namespace),
			})
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

// SanitizeEndpoints calls sanitized for each record that may be imported, in order of their clusters and names, and returns what was left
// out. sanitized returns what the record's Sanitized says, which the caller may know already: whether anything is left of it, and what
// had to be left out. The records are not changed.
func SanitizeEndpoints(
	records []*clustersetv1alpha1.ExportedEndpoints,
	sanitized func(cluster string, record *clustersetv1alpha1.ExportedEndpoints) (usable bool, errs field.ErrorList),
) (drops []Drop) {
	records = slices.SortedFunc(slices.Values(records), func(a, b *clustersetv1alpha1.ExportedEndpoints) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	of, kept := "", 0
	for _, record := range records {
		cluster, ok := record.SourceCluster()
		if !ok {
			drops = append(drops, strayRecord("ExportedEndpoints", record.Namespace, record.Name))
			continue
		}
		if cluster != of {
			of, kept = cluster, 0
		}
		if kept == MaxSlices {
			drops = append(drops, Drop{
				cluster, "ExportedEndpoints", record.Name,
				field.TooMany(field.NewPath("metadata", "name"), MaxSlices+1, MaxSlices),
			})
			continue
		}
		usable, errs := sanitized(cluster, record)
		for _, err := range errs {
			drops = append(drops, Drop{cluster, "ExportedEndpoints", record.Name, err})
		}
		if usable {
			kept++
		}
	}
	return drops
}

func strayRecord(kind, namespace, name string) Drop {
	return Drop{"", kind, name, field.Invalid(field.NewPath("metadata", "namespace"), namespace,
		"must be a member's namespace, "+api.MemberNamespace("<cluster>"))}
}
