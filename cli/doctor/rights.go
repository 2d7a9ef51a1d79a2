package doctor

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/objects"
	"github.com/clusterset/clusterset/hub/access"
)

const mcsGroup = "multicluster.x-k8s.io"

//go:embed rights.txt
var rightsTable string

// rules returns what a part needs on a server, by the table.
func rules(part, server string) (all []rbacv1.PolicyRule) {
	for line := range strings.Lines(rightsTable) {
		if f := strings.Fields(line); len(f) == 6 && f[0] == part && f[1] == server {
			list := func(i int) []string { return strings.Split(strings.Trim(f[i], "-"), ",") } // a dash is an empty string
			all = append(all, rbacv1.PolicyRule{APIGroups: list(2), Resources: list(3), ResourceNames: list(4), Verbs: list(5)})
		}
	}
	return all
}

// Roles are the values of --for.
var Roles = []string{"cli", "dns", "member", "hub", "hub-members"}

// wanted lists what a part needs on a server. A member's account on the hub is bound to the member's own namespace there. If MemberClusters name
// communities, it reads records only there and in the namespaces of its peers, which follow in read; else read is nil.
func wanted(role, what, memberNamespace string, read []string) []Right {
	label := map[string]string{"cli": "the command line", "dns": "the DNS server", "member": "clusterset member", "hub": "clusterset hub", "hub-members": "clusterset hub --manage-members"}[role]
	if what != "hub" || role != "member" {
		return expand(label, "", rules(role, what))
	}
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

func expand(label, namespace string, rules []rbacv1.PolicyRule) (all []Right) {
	for _, r := range rules {
		for _, resource := range r.Resources {
			for _, verb := range r.Verbs {
				for _, name := range append(r.ResourceNames, "")[:max(1, len(r.ResourceNames))] {
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
