package merge

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/internal/policy"
	"github.com/clusterset/clusterset/internal/topology"
)

// Resolved is one service, merged from all its exports.
type Resolved struct {
	Namespace, Name string

	// Winner is the cluster with the oldest export. Fields that can't be merged have its values.
	Winner string
	// Clusters are the clusters that export the service, sorted.
	Clusters []string

	// The winner's values.
	Type                  mcsv1beta1.ServiceImportType
	SessionAffinity       corev1.ServiceAffinity
	SessionAffinityConfig *corev1.SessionAffinityConfig
	InternalTrafficPolicy *corev1.ServiceInternalTrafficPolicy
	TrafficDistribution   *string
	Labels, Annotations   map[string]string
	// Policy is the winner's policy. If it prefers no tiers, its TrafficDistribution can.
	Policy topology.Policy

	// Ports are the union of all exports' ports, the winner's first.
	Ports []Port
	// IPFamilies are those of the oldest export that states any, in its order. Families that are not the younger exports' lead to some
	// of the backends only, which is a conflict. But if they were left out, a later export could take the addresses from clients that
	// use them, and so all of them from a cluster that has no other family.
	IPFamilies []corev1.IPFamily

	// Conflicts are the fields in which the exports differ, sorted by reason.
	Conflicts []Conflict
}

// Resolve merges the exports of one (namespace, name). The oldest export wins. If several are equally old, which is common
// because timestamps have a resolution of one second, the cluster whose name sorts first wins. No export is older than its cluster's
// membership. The order of exports doesn't matter. Without exports the result is the zero Resolved, whose Clusters are empty.
//
// The result shares maps and pointers with the exports.
func Resolve(exports []Export) Resolved {
	if len(exports) == 0 {
		return Resolved{}
	}
	exports = byAge(exports)
	winner := exports[0]
	spec := winner.Spec
	r := Resolved{
		Namespace: spec.ServiceNamespace,
		Name:      spec.ServiceName,
		Winner:    winner.Cluster,

		Type:                  spec.Type,
		SessionAffinity:       spec.SessionAffinity,
		SessionAffinityConfig: spec.SessionAffinityConfig,
		InternalTrafficPolicy: spec.InternalTrafficPolicy,
		TrafficDistribution:   spec.TrafficDistribution,
		Labels:                nonEmpty(spec.ExportedLabels),
		Annotations:           nonEmpty(spec.ExportedAnnotations),

		Ports: unitePorts(exports),
	}
	for _, e := range exports {
		if len(r.IPFamilies) == 0 { // a Headless Service of an API server older than the field has none
			r.IPFamilies = slices.Clone(e.Spec.IPFamilies)
		}
		r.Clusters = append(r.Clusters, e.Cluster)
	}
	slices.Sort(r.Clusters)
	stated, _ := policy.FromExport(spec.Policy, nil) // door.CompactService has removed invalid values
	r.Policy = policy.WithTrafficDistribution(stated, spec.TrafficDistribution)
	r.Conflicts = conflicts(exports)
	return r
}

// byAge returns one export of each cluster, the winner's first.
func byAge(exports []Export) []Export {
	sorted := slices.SortedFunc(slices.Values(exports), func(a, b Export) int {
		return cmp.Or(exportedAt(a).Compare(exportedAt(b)), cmp.Compare(a.Cluster, b.Cluster))
	})
	seen := make(map[string]bool, len(sorted))
	return slices.DeleteFunc(sorted, func(e Export) bool {
		again := seen[e.Cluster]
		seen[e.Cluster] = true
		return again
	})
}

// exportedAt returns the time in the record, but no earlier than its cluster joined: otherwise a member could win any service by
// claiming 1970, and change its type or remove its addresses. It is truncated to seconds, like times in JSON: an exporter that merges
// its own new record, which still has fractions, must get the same result as all others.
func exportedAt(e Export) time.Time {
	at := e.Spec.ExportedAt.Time
	if e.Joined.After(at) {
		at = e.Joined
	}
	return at.Truncate(time.Second)
}

func nonEmpty(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	return maps.Clone(m)
}
