package merge

import (
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/communities"
)

// Visible returns whether a member imports a cluster's record: the two share a community, and the record may be for some members only.
// Conflicts are those among the records that a member sees, so that two members can hold two merges of one service.
//
// A MemberCluster that is unknown says nothing about communities: the hub may have lost it.
func Visible(viewer string, member func(cluster string) *clustersetv1alpha1.MemberCluster) func(cluster string, record *clustersetv1alpha1.ExportedService) bool {
	own := member(viewer)
	return func(cluster string, record *clustersetv1alpha1.ExportedService) bool {
		if cluster == viewer || own == nil {
			return true
		}
		if !communities.Allows(record.Spec.ExportTo, viewer, own.Spec.Communities) {
			return false
		}
		of := member(cluster)
		return of == nil || communities.Share(own.Spec.Communities, of.Spec.Communities)
	}
}
