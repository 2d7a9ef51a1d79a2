package exporter

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/merge"
)

// conflictOf returns the Conflict condition of our ServiceExport. Every exporter merges the same records itself, so that every
// ServiceExport involved gets the condition, including the winner's (KEP-1645, "Constraints and Conflict Resolution"), although
// no member can write in another.
//
// own is our record as it should be, which the hub may not have yet. It is nil if we export nothing, which conflicts with
// nothing. Only the others that this cluster sees count.
func conflictOf(own *clustersetv1alpha1.ExportedService, others []*clustersetv1alpha1.ExportedService, member func(cluster string) *clustersetv1alpha1.MemberCluster) *metav1.Condition {
	if own == nil {
		none := mcsv1beta1.NewServiceExportCondition(mcsv1beta1.ServiceExportConditionConflict, metav1.ConditionFalse,
			mcsv1beta1.ServiceExportReasonNoConflicts, "nothing is exported")
		return &none
	}
	us, _ := own.SourceCluster()
	visible := merge.Visible(us, member)
	exports, _ := merge.Sanitize(append([]*clustersetv1alpha1.ExportedService{own}, others...), merge.JoinedBy(member))
	exports = slices.DeleteFunc(exports, func(e merge.Export) bool { return !visible(e.Cluster, e.Service) })
	resolved := merge.Resolve(exports)
	condition := resolved.ConflictCondition()
	return &condition
}
