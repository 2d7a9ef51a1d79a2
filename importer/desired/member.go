package desired

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/topology"
)

// NodePlace is a location of some of this cluster's nodes, from their labels. Either field may be empty.
type NodePlace struct{ Zone, Region string }

// member returns what ranking needs of a cluster. A cluster that is Ready again, but not yet for long enough, counts as Suspect.
func (in *Input) member(cluster string) (m topology.Member) {
	if from := in.Members[cluster]; from != nil {
		m.Zones, m.Region, m.Drain = from.AllZones(), from.Spec.Region, from.Spec.Drain
		switch from.Status.Phase {
		case clustersetv1alpha1.MemberSuspect:
			m.Phase = topology.Suspect
		case clustersetv1alpha1.MemberExpired:
			m.Phase = topology.Expired
		}
	}
	if in.Returning[cluster] {
		m.Phase = topology.Suspect
	}
	return m
}

// Usable returns the usable part of a MemberCluster, and its errors. An invalid MemberCluster keeps its networks, its communities and its
// health: a typo in its zone, or in one of the networks, must not let the cluster export any address, or to others. confine ignores
// invalid networks.
func Usable(member *clustersetv1alpha1.MemberCluster) (*clustersetv1alpha1.MemberCluster, field.ErrorList) {
	errs := member.Validate()
	if len(errs) == 0 {
		return member, nil
	}
	return &clustersetv1alpha1.MemberCluster{
		ObjectMeta: metav1.ObjectMeta{
			Name: member.Name, CreationTimestamp: member.CreationTimestamp,
			Annotations: map[string]string{api.AnnotationJoined: member.Annotations[api.AnnotationJoined]},
		},
		Spec:   clustersetv1alpha1.MemberClusterSpec{CIDRs: member.Spec.CIDRs, Communities: member.Spec.Communities, Drain: member.Spec.Drain},
		Status: member.Status,
	}, errs
}
