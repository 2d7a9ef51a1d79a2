package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
	"github.com/clusterset/clusterset/cli/objects"
	"github.com/clusterset/clusterset/hub/access"
)

const mcsGroup = "multicluster.x-k8s.io"

func rule(group string, resources, verbs []string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: verbs}
}

// named returns a rule about objects with one name.
func named(group, resource, name string, verbs ...string) rbacv1.PolicyRule {
	r := rule(group, []string{resource}, verbs)
	r.ResourceNames = []string{name}
	return r
}

var (
	read  = []string{"get", "list", "watch"}
	write = []string{"create", "update", "delete"}
)

// roles are the parts whose rights can be checked, by the value of --for, with what each needs in its own cluster: no more than
// the chart's roles grant, or doctor would ask for rights that nothing uses (test/chart).
var roles = map[string][]rbacv1.PolicyRule{
	"cli": { // clusterset status, explain, doctor
		rule(clustersetv1alpha1.GroupName, []string{"memberclusters"}, []string{"list"}),
		named(clustersetv1alpha1.GroupName, "reachabilities", clustersetv1alpha1.ReachabilityName, "get"),
		rule("", []string{"namespaces", "services"}, []string{"get", "list"}),
		rule("", []string{"pods"}, []string{"list"}),
		rule("apps", []string{"deployments", "daemonsets"}, []string{"list"}),
		rule("events.k8s.io", []string{"events"}, []string{"list"}),
		rule(mcsGroup, []string{"serviceimports", "serviceexports"}, []string{"list"}),
		rule(fabedgev1alpha1.GroupName, []string{"globalservices"}, []string{"list"}),
		rule("discovery.k8s.io", []string{"endpointslices"}, []string{"list"}),
		named("coordination.k8s.io", "leases", api.MemberLeaderLease, "list"),
	},
	"dns": {
		rule(clustersetv1alpha1.GroupName, []string{"memberclusters", "reachabilities"}, read),
		rule(mcsGroup, []string{"serviceimports"}, read),
		rule(fabedgev1alpha1.GroupName, []string{"globalservices"}, read),
		rule("discovery.k8s.io", []string{"endpointslices"}, read),
	},
	"member": {
		rule("", []string{"services"}, slices.Concat(read, write)),
		rule("", []string{"namespaces", "nodes"}, read),
		rule("discovery.k8s.io", []string{"endpointslices"}, slices.Concat(read, write)),
		rule("discovery.k8s.io", []string{"endpointslices/restricted"}, []string{"create"}), // OpenShift's, for addresses of pods
		rule(mcsGroup, []string{"serviceexports"}, slices.Concat(read, []string{"create", "delete"})),
		rule(mcsGroup, []string{"serviceexports/status"}, []string{"patch"}),
		rule(mcsGroup, []string{"serviceimports"}, slices.Concat(read, write)),
		rule(mcsGroup, []string{"serviceimports/status"}, []string{"update"}),
		rule(fabedgev1alpha1.GroupName, []string{"globalservices"}, slices.Concat(read, write)),
		rule(fabedgev1alpha1.GroupName, []string{"globalservices/status"}, []string{"update"}),
		rule(clustersetv1alpha1.GroupName, []string{"memberclusters"}, slices.Concat(read, write)),
		rule(clustersetv1alpha1.GroupName, []string{"memberclusters/status"}, []string{"update"}),
		rule(clustersetv1alpha1.GroupName, []string{"reachabilities"}, []string{"create"}),
		named(clustersetv1alpha1.GroupName, "reachabilities", clustersetv1alpha1.ReachabilityName, "get", "update"),
		rule("events.k8s.io", []string{"events"}, []string{"create", "patch"}),
	},
}

// hubRoles are the rights that parts need on the hub.
var hubRoles = map[string][]rbacv1.PolicyRule{
	"cli": { // clusterset status and preview; not drain, which a reader doesn't use
		rule(clustersetv1alpha1.GroupName, []string{"memberclusters"}, []string{"get", "list"}),
		rule(clustersetv1alpha1.GroupName, []string{"exportedservices", "exportedendpoints", "memberreports"}, []string{"list"}),
		rule("coordination.k8s.io", []string{"leases"}, []string{"list"}),
	},
	"hub": {
		rule(clustersetv1alpha1.GroupName, []string{"memberclusters"}, slices.Concat(read, []string{"patch"})),
		rule(clustersetv1alpha1.GroupName, []string{"memberclusters/status"}, []string{"patch"}),
		rule(clustersetv1alpha1.GroupName, []string{"exportedservices", "exportedendpoints"}, slices.Concat(read, []string{"deletecollection"})),
		rule(clustersetv1alpha1.GroupName, []string{"memberreports"}, read),
		named(clustersetv1alpha1.GroupName, "memberreports", clustersetv1alpha1.MemberReportName, "delete"),
		rule("", []string{"resourcequotas", "configmaps"}, []string{"create"}),
		named("", "resourcequotas", api.RecordsQuota, "get", "list", "watch", "update"),
		named("", "resourcequotas/status", api.RecordsQuota, "update"),
		named("", "configmaps", api.NetworksConfigMap, "get", "list", "watch", "update"),
		rule("coordination.k8s.io", []string{"leases"}, read),
		named("coordination.k8s.io", "leases", api.HeartbeatLease, "delete"),
		named("", "serviceaccounts", api.MemberServiceAccount, "get", "list", "watch", "delete"),
		named(rbacv1.GroupName, "rolebindings", api.MemberRole, "delete"),
		rule(rbacv1.GroupName, []string{"clusterroles", "rolebindings"}, []string{"create"}),
		named(rbacv1.GroupName, "clusterroles", api.MemberClusterRole, "get", "list", "watch", "update"),
		named(rbacv1.GroupName, "clusterroles", api.MemberPeerRole, "get", "list", "watch", "update"),
		named(rbacv1.GroupName, "rolebindings", api.PeersBinding, "get", "list", "watch", "update", "delete"),
		named("apiextensions.k8s.io", "customresourcedefinitions", "memberclusters.clusterset.dev", "get"),
		rule("events.k8s.io", []string{"events"}, []string{"create", "patch"}),
	},
	"hub-members": { // what else it needs with --manage-members
		rule("", []string{"namespaces"}, slices.Concat(read, []string{"create"})),
		rule("", []string{"serviceaccounts", "secrets"}, []string{"create"}),
		named("", "serviceaccounts", api.MemberServiceAccount, "patch"),
		named("", "secrets", api.HubSecret, "delete"),
		rule(rbacv1.GroupName, []string{"roles", "clusterrolebindings"}, []string{"create"}),
		named(rbacv1.GroupName, "roles", api.MemberRole, "get", "list", "watch", "update", "bind"),
		named(rbacv1.GroupName, "rolebindings", api.MemberRole, "get", "list", "watch", "update"),
		named(rbacv1.GroupName, "clusterroles", api.MemberClusterRole, "bind"),
		named(rbacv1.GroupName, "clusterrolebindings", api.MembersBinding, "get", "list", "watch", "update"),
		named("", "serviceaccounts/token", api.MemberServiceAccount, "create"),
		rule(clustersetv1alpha1.GroupName, []string{"exportedservices", "exportedendpoints"}, []string{"create", "update", "patch", "delete"}),
		rule(clustersetv1alpha1.GroupName, []string{"memberreports"}, []string{"create"}),
		named(clustersetv1alpha1.GroupName, "memberreports", clustersetv1alpha1.MemberReportName, "update"),
		named("coordination.k8s.io", "leases", api.HeartbeatLease, "create", "update"),
	},
}

// Roles are the values of --for.
var Roles = []string{"cli", "dns", "member", "hub", "hub-members"}

// wanted lists what a part needs on a server. A member's account on the hub is bound to the member's own namespace there. If MemberClusters name
// communities, it reads records only there and in the namespaces of its peers, which follow in read; else read is nil.
func wanted(role, what, memberNamespace string, read []string) []Right {
	label := map[string]string{"cli": "the command line", "dns": "the DNS server", "member": "clusterset member", "hub": "clusterset hub", "hub-members": "clusterset hub --manage-members"}[role]
	switch {
	case what != "hub":
		return expand(label, "", roles[role])
	case role == "member":
		rights := expand(label, "", access.ReaderRole(read != nil).Rules)
		if memberNamespace == "" {
			return rights
		}
		rights = append(rights, expand(label, memberNamespace, slices.Concat(access.PeerRules(), access.WriterRules()))...)
		for i, peer := range read {
			if i > 0 { // one right stands for all that the hub grants there: a set may have hundreds of members
				rights = append(rights, Right{For: label, Verb: "list", Group: clustersetv1alpha1.GroupName, Resource: "exportedservices", Namespace: peer})
			}
		}
		return rights
	}
	return expand(label, "", hubRoles[role])
}

// expand returns a right for each combination that the rules allow.
func expand(label, namespace string, rules []rbacv1.PolicyRule) []Right {
	var all []Right
	for _, r := range rules {
		names := r.ResourceNames
		if names == nil {
			names = []string{""}
		}
		for _, resource := range r.Resources {
			for _, verb := range r.Verbs {
				for _, name := range names {
					all = append(all, Right{For: label, Verb: verb, Group: r.APIGroups[0], Resource: resource, Namespace: namespace, Name: name})
				}
			}
		}
	}
	return all
}

// ask asks the API server which of the rights this account has (SelfSubjectAccessReview, which anyone may create).
func ask(ctx context.Context, c *objects.Cluster, rights []Right) error {
	for i := range rights {
		r := &rights[i]
		resource, subresource, _ := strings.Cut(r.Resource, "/")
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: r.Namespace, Verb: r.Verb, Group: r.Group, Resource: resource, Subresource: subresource, Name: r.Name,
			},
		}}
		if err := c.Create(ctx, review, &client.CreateOptions{}); err != nil {
			return fmt.Errorf("ask about %s: %w", r, err)
		}
		r.Allowed = review.Status.Allowed
	}
	return nil
}
