package doctor

import (
	"context"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/objects"
	"github.com/clusterset/clusterset/cli/screen"
)

// wanted has what the command line needs for status, services, explain, preview and doctor, by what the server is. drain, which a reader doesn't
// use, needs more.
var wanted = map[string][]Right{
	"cluster": {
		{Verb: "list", Resource: "memberclusters.clusterset.dev"},
		{Verb: "get", Resource: "reachabilities.clusterset.dev", Name: clustersetv1alpha1.ReachabilityName},
		{Verb: "get", Resource: "namespaces"},
		{Verb: "list", Resource: "namespaces"},
		{Verb: "get", Resource: "services"},
		{Verb: "list", Resource: "services"},
		{Verb: "list", Resource: "pods"},
		{Verb: "list", Resource: "deployments.apps"},
		{Verb: "list", Resource: "daemonsets.apps"},
		{Verb: "list", Resource: "events.events.k8s.io"},
		{Verb: "list", Resource: "serviceimports.multicluster.x-k8s.io"},
		{Verb: "list", Resource: "serviceexports.multicluster.x-k8s.io"},
		{Verb: "list", Resource: "globalservices.dns.fabedge.io"},
		{Verb: "list", Resource: "endpointslices.discovery.k8s.io"},
		{Verb: "list", Resource: "leases.coordination.k8s.io", Name: api.MemberLeaderLease},
	},
	"hub": {
		{Verb: "get", Resource: "memberclusters.clusterset.dev"},
		{Verb: "list", Resource: "memberclusters.clusterset.dev"},
		{Verb: "list", Resource: "exportedservices.clusterset.dev"},
		{Verb: "list", Resource: "exportedendpoints.clusterset.dev"},
		{Verb: "list", Resource: "memberreports.clusterset.dev"},
		{Verb: "list", Resource: "leases.coordination.k8s.io"},
	},
}

// ask asks the API server which of the rights this account has (SelfSubjectAccessReview, which anyone may create).
func ask(ctx context.Context, c *objects.Cluster, rights []Right) error {
	for i := range rights {
		r := &rights[i]
		resource, group, _ := strings.Cut(r.Resource, ".")
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: r.Verb, Group: group, Resource: resource, Name: r.Name},
		}}
		if err := c.Create(ctx, review, &client.CreateOptions{}); err != nil {
			return fmt.Errorf("ask about %s: %w", r, err)
		}
		r.Allowed = review.Status.Allowed
	}
	return nil
}

func (r Right) String() string { return strings.TrimSpace(r.Verb + " " + r.Resource + " " + r.Name) }

func checkRights(f *Facts) (all []Finding) {
	for _, s := range f.answering() {
		var missing []string
		for _, r := range s.Rights {
			if !r.Allowed {
				missing = append(missing, r.String())
			}
		}
		switch {
		case s.RightsErr != nil:
			all = append(all, skipped("the %s doesn't say what this account may do: %v", s.What, s.RightsErr))
		case len(missing) > 0:
			all = append(all, problem(fmt.Sprintf("on the %s the account may not %s, which the command line needs", s.What, screen.And(missing)),
				"grant it with a Role and a binding, or use another account"))
		case len(s.Rights) > 0:
			all = append(all, ok("on the %s the account may do all that the command line needs", s.What))
		}
	}
	return all
}
