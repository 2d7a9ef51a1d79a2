package join_test

import (
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/join"
	"github.com/clusterset/clusterset/test/page"
)

// TestMemberCredentialsCanDoNothingElse asks the hub's authorizer about every verb on every resource that it serves, in the member's
// own namespace, in another member's, in one of the hub's own, and in all. Rule C54 of docs/spec/control-plane.md.
func TestMemberCredentialsCanDoNothingElse(t *testing.T) {
	hub, _ := newHub(t)
	kubeconfig := mustJoin(t, hub, join.Options{Cluster: "beijing"})
	mustJoin(t, hub, join.Options{Cluster: "lyon"})
	member := newClient(t, configOf(t, kubeconfig))

	own, other := api.MemberNamespace("beijing"), api.MemberNamespace("lyon")
	// Kubernetes lets every account create reviews about itself.
	got := hub.Access(t, configOf(t, kubeconfig), map[string]string{"own": own, "other": other, "hub": "kube-system", "all": ""})
	page.Fresh(t, "testdata/allowed.txt", strings.Join(got, "\n")+"\n")

	for _, c := range []struct {
		verb, group, resource, sub, namespace, name string
		want                                        bool
	}{
		{"get", "coordination.k8s.io", "leases", "", own, api.HeartbeatLease, true},
		{"create", "coordination.k8s.io", "leases", "", own, api.HeartbeatLease, true},
		{"create", "coordination.k8s.io", "leases", "", own, "another", false},
		{"update", "coordination.k8s.io", "leases", "", own, api.HeartbeatLease, true},
		{"patch", "coordination.k8s.io", "leases", "", own, api.HeartbeatLease, false},
		{"delete", "coordination.k8s.io", "leases", "", own, api.HeartbeatLease, false},
		{"update", "coordination.k8s.io", "leases", "", own, "another", false},
		{"update", "coordination.k8s.io", "leases", "", other, api.HeartbeatLease, false},
		{"get", "coordination.k8s.io", "leases", "", other, api.HeartbeatLease, false},
		{"update", "clusterset.dev", "memberreports", "", own, clustersetv1alpha1.MemberReportName, true},
		{"delete", "clusterset.dev", "memberreports", "", own, clustersetv1alpha1.MemberReportName, false},
		{"get", "clusterset.dev", "memberreports", "", other, clustersetv1alpha1.MemberReportName, true},
		{"update", "clusterset.dev", "memberreports", "", other, clustersetv1alpha1.MemberReportName, false},
		{"create", "", "serviceaccounts", "token", own, api.MemberServiceAccount, true},
		{"create", "", "serviceaccounts", "token", own, "default", false},
		{"create", "", "serviceaccounts", "token", other, api.MemberServiceAccount, false},
		{"get", "", "serviceaccounts", "", own, api.MemberServiceAccount, false},
		{"impersonate", "", "users", "", "", "admin", false},
		{"impersonate", "", "groups", "", "", "system:masters", false},
	} {
		if got := can(t, member, c.verb, c.group, c.resource, c.sub, c.namespace, c.name); got != c.want {
			t.Errorf("%s %s/%s %s/%s: allowed is %v", c.verb, c.resource, c.sub, c.namespace, c.name, got)
		}
	}
}

func can(t *testing.T, member client.Client, verb, group, resource, sub, namespace, name string) bool {
	t.Helper()
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: verb, Group: group, Resource: resource, Subresource: sub, Namespace: namespace, Name: name,
		},
	}}
	if err := member.Create(t.Context(), review); err != nil {
		t.Fatal(err)
	}
	return review.Status.Allowed
}
