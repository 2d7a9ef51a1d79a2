package merge

import (
	"fmt"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/communities"
)

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
