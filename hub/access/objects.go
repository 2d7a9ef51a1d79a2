package access

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

// DefaultTokenLifetime is how long a member's token is valid. For at least half of that time a member can be without its hub,
// or its agent can be down, before it must rejoin.
const DefaultTokenLifetime = 14 * 24 * time.Hour

// Managed returns the labels of the objects that join creates for a cluster.
func Managed(cluster string) map[string]string {
	return map[string]string{api.LabelManagedBy: api.ManagedByJoin, api.LabelCluster: cluster}
}

// Objects returns the objects that make a cluster a member besides its MemberCluster, in the order of creation: a namespace, an
// account, and its rights. by is who creates them, a value of api.LabelManagedBy. The binding that lets the account read what
// all members may is separate: join creates one for each, the hub process one for all.
func Objects(cluster, by string) []client.Object {
	own := []client.Object{Namespace(cluster), ServiceAccount(cluster), Role(cluster), RoleBinding(cluster)}
	for _, o := range own {
		o.GetLabels()[api.LabelManagedBy] = by
	}
	return append(own, ClusterRole())
}

// Restore makes an object match another in all that makes a cluster a member.
func Restore(have, want client.Object) {
	switch h := have.(type) {
	case *corev1.ConfigMap:
		h.Data = want.(*corev1.ConfigMap).Data
	case *rbacv1.Role:
		h.Rules = want.(*rbacv1.Role).Rules
	case *rbacv1.ClusterRole:
		if !Confined(h) { // the hub process keeps its rules
			h.Rules = want.(*rbacv1.ClusterRole).Rules
		}
	case *rbacv1.RoleBinding:
		h.RoleRef, h.Subjects = want.(*rbacv1.RoleBinding).RoleRef, want.(*rbacv1.RoleBinding).Subjects
	case *rbacv1.ClusterRoleBinding:
		h.RoleRef, h.Subjects = want.(*rbacv1.ClusterRoleBinding).RoleRef, want.(*rbacv1.ClusterRoleBinding).Subjects
	}
}

// Namespace is where a member keeps its records and its heartbeat. No other member may write there.
func Namespace(cluster string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: api.MemberNamespace(cluster), Labels: Managed(cluster)}}
}

// Networks returns the ConfigMap in which the hub's admission policy finds the addresses that the member may publish. The hub
// process keeps it up to date.
func Networks(cluster string, spec *clustersetv1alpha1.MemberClusterSpec) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: in(cluster, api.NetworksConfigMap), Data: map[string]string{
		api.NetworksKey: strings.Join(spec.CIDRs, ","), api.ExternalNetworksKey: strings.Join(spec.ExternalCIDRs, ","),
	}}
}

// ServiceAccount is what a member's agent is on the hub.
func ServiceAccount(cluster string) *corev1.ServiceAccount {
	// No pod of the hub's cluster should get its token: it is for an agent elsewhere.
	return &corev1.ServiceAccount{ObjectMeta: in(cluster, api.MemberServiceAccount), AutomountServiceAccountToken: new(false)}
}

// in names an object in a member's namespace.
func in(cluster, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: api.MemberNamespace(cluster), Name: name, Labels: Managed(cluster)}
}

// rule allows verbs on resources of a group, of one name unless that is empty.
func rule(group string, resources []string, name string, verbs ...string) rbacv1.PolicyRule {
	r := rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: verbs}
	if name != "" {
		r.ResourceNames = []string{name}
	}
	return r
}

// WriterRules are a member's rights in its own namespace: to write its records, its report and its heartbeat, and to request a new token of
// its own account.
func WriterRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rule(clustersetv1alpha1.GroupName, []string{"exportedservices", "exportedendpoints"}, "", "create", "update", "patch", "delete"),
		// A POST is authorized before the object has a name, so this rule refuses it. The agent creates its Lease by an update, whose
		// request has the name.
		rule("coordination.k8s.io", []string{"leases"}, api.HeartbeatLease, "get", "create", "update"),
		rule(clustersetv1alpha1.GroupName, []string{"memberreports"}, "", "create"), // its schema allows only one name
		rule(clustersetv1alpha1.GroupName, []string{"memberreports"}, clustersetv1alpha1.MemberReportName, "get", "update"),
		rule("", []string{"serviceaccounts/token"}, api.MemberServiceAccount, "create"),
	}
}

// ReaderRules are every member's rights on the whole hub: to read our group, whose records it imports, and the others' reports.
func ReaderRules() []rbacv1.PolicyRule {
	rules := PeerRules()
	rules[0].Resources = append(rules[0].Resources, "memberclusters")
	return rules
}

// PeerRules are what members may do in the namespaces of those that they share a community with, where MemberClusters name communities.
func PeerRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rule(clustersetv1alpha1.GroupName, []string{"exportedservices", "exportedendpoints"}, "", "get", "list", "watch"),
		// An agent finds out where the others' beacons are.
		rule(clustersetv1alpha1.GroupName, []string{"memberreports"}, clustersetv1alpha1.MemberReportName, "get"),
	}
}

// Confine takes out of the ClusterRole that all members share what PeerRules give, or puts it back.
func Confine(role *rbacv1.ClusterRole, confined bool) {
	role.Rules = ReaderRules()
	if !confined {
		delete(role.Annotations, api.AnnotationConfined)
		return
	}
	role.Rules = role.Rules[:1]
	role.Rules[0].Resources = []string{"memberclusters"}
	metav1.SetMetaDataAnnotation(&role.ObjectMeta, api.AnnotationConfined, "by communities")
}

// Confined reports whether Confine has taken out of a role what PeerRules give.
func Confined(role *rbacv1.ClusterRole) bool {
	_, confined := role.Annotations[api.AnnotationConfined]
	return confined
}

// Role lets a member write in its namespace.
func Role(cluster string) *rbacv1.Role {
	return &rbacv1.Role{ObjectMeta: in(cluster, api.MemberRole), Rules: WriterRules()}
}

// RoleBinding gives a member its Role.
func RoleBinding(cluster string) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{ObjectMeta: in(cluster, api.MemberRole), RoleRef: to("Role", api.MemberRole), Subjects: Subjects(cluster)}
}

// to is the reference of a binding.
func to(kind, name string) rbacv1.RoleRef {
	return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: name}
}

// PeersBinding is the one that the hub process makes where MemberClusters name communities. Its Subjects are those who may read the
// member's records.
func PeersBinding(cluster string) *rbacv1.RoleBinding {
	binding := &rbacv1.RoleBinding{ObjectMeta: in(cluster, api.PeersBinding), RoleRef: to("ClusterRole", api.MemberPeerRole)}
	binding.Labels[api.LabelManagedBy] = api.ManagedByHub
	return binding
}

// PeerRole is the ClusterRole to which PeersBinding refers.
func PeerRole() *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{ObjectMeta: forAll(api.MemberPeerRole, api.ManagedByHub), Rules: PeerRules()}
}

// ClusterRole lets all members read.
func ClusterRole() *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{ObjectMeta: forAll(api.MemberClusterRole, api.ManagedByJoin), Rules: ReaderRules()}
}

// forAll names an object that all members share, so it has no member's name.
func forAll(name, by string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Labels: map[string]string{api.LabelManagedBy: by}}
}

// ClusterRoleBinding gives a member the ClusterRole. It has the name of the member's namespace.
func ClusterRoleBinding(cluster string) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: api.MemberNamespace(cluster), Labels: Managed(cluster)},
		RoleRef:    to("ClusterRole", api.MemberClusterRole), Subjects: Subjects(cluster),
	}
}

// MembersBinding gives the ClusterRole to those who became members by their MemberClusters.
func MembersBinding() *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{ObjectMeta: forAll(api.MembersBinding, api.ManagedByHub), RoleRef: to("ClusterRole", api.MemberClusterRole)}
}

// Subjects are what a member's rights are bound to: its account.
func Subjects(cluster string) []rbacv1.Subject {
	return []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: api.MemberNamespace(cluster), Name: api.MemberServiceAccount}}
}
