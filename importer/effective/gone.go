package effective

import (
	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
)

// Gone reports whether a cluster is gone, so that nothing of it stays (rules C25 and C44 of docs/spec/control-plane.md). hub is its MemberCluster on
// the hub, and here the one in this cluster: our copy, the hub's own if this cluster is the hub, or a user's. Each is nil if there is none.
//
// A cluster that says that it has left is gone, unless our copy is of another MemberCluster: then the hub was restored from a backup in which an
// earlier one had left. One that is missing on the hub stays while there is a copy.
func Gone(hub, here *clustersetv1alpha1.MemberCluster) bool {
	copied := here != nil && desired.Owned(here)
	switch {
	case hub == nil:
		return !copied
	case copied:
		return hub.Left() && here.Annotations[api.AnnotationHubUID] == string(hub.UID)
	}
	return hub.Left()
}
