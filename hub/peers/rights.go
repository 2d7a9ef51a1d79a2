package peers

import (
	rbacv1 "k8s.io/api/rbac/v1"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/hub/access"
	"github.com/clusterset/clusterset/internal/communities"
)

// state has the objects that decide the rights.
type state struct {
	members  map[string]*clustersetv1alpha1.MemberCluster // members that haven't left
	accounts map[string]bool                              // members with an account of ours
	reader   *rbacv1.ClusterRole                          // of all members, empty if there is none
	bound    []rbacv1.RoleBinding                         // those that there are
}

// enforced reports whether the ClusterRole of all members no longer grants reading records.
func (s *state) enforced() bool { return access.Confined(s.reader) }

// on reports whether the set has communities. The communities of an account whose MemberCluster the hub has lost are
// unknown, so a set with communities keeps them while there is such an account. Otherwise the loss of all MemberClusters
// would let every member read everything.
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

// bindings returns the wanted RoleBindings by namespace, including those of members whose account is being replaced (join
// --revoke), because others keep their right to read. It binds only accounts of ours: for an account in a namespace that
// somebody else made, anybody might hold a token.
func (s *state) bindings() map[string]*rbacv1.RoleBinding {
	if !s.on() {
		return nil
	}
	set := s.set()
	all := make(map[string]*rbacv1.RoleBinding, len(s.members))
	for cluster := range set {
		binding := access.PeersBinding(cluster)
		for _, peer := range set.Peers(cluster) {
			if s.accounts[peer] {
				binding.Subjects = append(binding.Subjects, access.Subjects(peer)...)
			}
		}
		all[binding.Namespace] = binding
	}
	return all
}
