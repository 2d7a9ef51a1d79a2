package desired

import (
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/topology"
)

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
	m.Unreachable = in.Unreachable != nil && in.Unreachable(cluster)
	return m
}
