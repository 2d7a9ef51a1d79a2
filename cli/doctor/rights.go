package doctor

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"sync"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/objects"
	"github.com/clusterset/clusterset/hub/access"
)

//go:embed rights.yaml
var rightsYAML []byte

// roles has what each part needs, by what the server is ("cluster" or "hub") and the value of --for.
var roles = sync.OnceValue(func() (all map[string]map[string][]rbacv1.PolicyRule) {
	if err := yaml.UnmarshalStrict(rightsYAML, &all); err != nil {
		panic(fmt.Sprintf("read embedded rights: %v", err))
	}
	return all
})

// Roles are the values of --for.
var Roles = []string{"cli", "dns", "member", "hub", "hub-members"}

// wanted lists what a part needs on a server. A member's account on the hub is bound to the member's own namespace there. If MemberClusters name
// communities, it reads records only there and in the namespaces of its peers, which follow in read; else read is nil.
func wanted(role, what, memberNamespace string, read []string) []Right {
	label := map[string]string{"cli": "the command line", "dns": "the DNS server", "member": "clusterset member", "hub": "clusterset hub", "hub-members": "clusterset hub --manage-members"}[role]
	if what != "hub" || role != "member" {
		return expand(label, "", roles()[what][role])
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
