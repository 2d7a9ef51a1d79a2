package peers

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/communities"
	"github.com/clusterset/clusterset/internal/join"
)

// state is what the rights follow from.
type state struct {
	members  map[string]*clustersetv1alpha1.MemberCluster // that haven't left
	accounts map[string]bool                              // members with an account of ours
	features map[string]bool                              // members whose agents know communities
	reader   *rbacv1.ClusterRole                          // of all members, nil where it is missing
}

// enforced reports whether the ClusterRole of all members is without the records.
func (s *state) enforced() bool { return s.reader != nil && join.Confined(s.reader) }

// on reports whether the set has communities. While an account has no MemberCluster, which the hub has lost, what it was in isn't
// known: a set that has communities keeps them. Else the loss of all MemberClusters would let every member read everything.
func (s *state) on() bool {
	if s.set().On() {
		return true
	}
	if !s.enforced() {
		return false
	}
	for cluster := range s.accounts {
		if s.members[cluster] == nil {
			return true
		}
	}
	return false
}

func (s *state) set() communities.Set {
	set := make(communities.Set, len(s.members))
	for name, mc := range s.members {
		set[name] = mc.Spec.Communities
	}
	return set
}

// tooOld reports whether a cluster's agent is at work and doesn't know communities. Without the right to read everything it would get
// no change any more.
func (s *state) tooOld(cluster string) bool {
	return s.members[cluster].Status.Phase == clustersetv1alpha1.MemberReady && !s.features[cluster]
}

// wait reports whether the rights of all have to stay for a while, because of an agent that is too old. They don't come back for one:
// a member that says it is old mustn't thereby read what isn't for it.
func (s *state) wait() bool {
	if s.enforced() {
		return false
	}
	for cluster := range s.members {
		if s.tooOld(cluster) {
			return true
		}
	}
	return false
}

// bindings returns the RoleBindings that there should be, by namespace, also of members whose account is being replaced (join --revoke): what
// others may read stays. Only accounts of ours are bound: of one in a namespace that somebody else made, anybody may have a token.
func (s *state) bindings() map[string]*rbacv1.RoleBinding {
	if !s.on() {
		return nil
	}
	set := s.set()
	all := make(map[string]*rbacv1.RoleBinding, len(s.members))
	for cluster := range s.members {
		binding := binding(cluster)
		for _, peer := range set.Peers(cluster) {
			if s.accounts[peer] {
				binding.Subjects = append(binding.Subjects, join.Subjects(peer)...)
			}
		}
		all[binding.Namespace] = binding
	}
	return all
}

func binding(cluster string) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: api.MemberNamespace(cluster), Name: api.PeersBinding,
			Labels: map[string]string{api.LabelManagedBy: api.ManagedByHub, api.LabelCluster: cluster},
		},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: api.MemberPeerRole},
	}
}

// peerRole is what those RoleBindings give.
func peerRole() *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: api.MemberPeerRole, Labels: map[string]string{api.LabelManagedBy: api.ManagedByHub}},
		Rules:      join.PeerRules(),
	}
}

// isMember reports whether a MemberCluster stands for a member of the set that hasn't left.
func isMember(mc *clustersetv1alpha1.MemberCluster) bool {
	return api.CheckMemberName(mc.Name) == nil && !mc.Left() && mc.Labels[api.LabelManagedBy] != api.ManagedByImporter
}

// accountOf returns whose account a ServiceAccount is, empty if it isn't one that we or join created.
func accountOf(account *corev1.ServiceAccount) string {
	cluster, ok := api.ClusterOfNamespace(account.Namespace)
	if !ok || account.Name != api.MemberServiceAccount || !join.Ours(account) || account.Labels[api.LabelCluster] != cluster {
		return ""
	}
	return cluster
}

// knowsCommunities reports whether a member's agent says on its Lease that it can read with the rights of communities.
func knowsCommunities(lease client.Object) bool {
	return slices.Contains(strings.Split(lease.GetAnnotations()[api.AnnotationFeatures], ","), api.FeatureCommunities)
}
