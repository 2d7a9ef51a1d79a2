package join_test

import (
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/join"
	"github.com/clusterset/clusterset/test/page"
)

// TestMemberCredentialsCanDoNothingElse asks the hub's authorizer about every verb on every resource that it serves, in the member's
// own namespace, in another member's, in one of the hub's own, and in all.
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

// TestMembersCannotTouchEachOther sends real requests, while TestMemberCredentialsCanDoNothingElse only asks the authorizer. Rule C54 of
// docs/spec/control-plane.md.
func TestMembersCannotTouchEachOther(t *testing.T) {
	hub, admin := newHub(t)
	ctx := t.Context()
	member := newClient(t, configOf(t, mustJoin(t, hub, join.Options{Cluster: "beijing"})))
	mustJoin(t, hub, join.Options{Cluster: "lyon"})
	theirs := record("lyon")
	if err := admin.Create(ctx, theirs); err != nil {
		t.Fatal(err)
	}
	if err := member.Get(ctx, client.ObjectKeyFromObject(theirs), &clustersetv1alpha1.ExportedService{}); err != nil {
		t.Errorf("a member can't read another's export: %v", err)
	}
	mc := &clustersetv1alpha1.MemberCluster{}
	if err := admin.Get(ctx, client.ObjectKey{Name: "beijing"}, mc); err != nil {
		t.Fatal(err)
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: api.MemberNamespace("lyon"), Name: api.HeartbeatLease}}
	apply := func(name string) error {
		return member.Update(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: api.MemberNamespace("beijing"), Name: name}})
	}
	if err := apply(api.HeartbeatLease); err != nil {
		t.Errorf("a member can't send its first heartbeat: %v", err)
	}
	another := lease.DeepCopy()
	another.Namespace, another.Name = api.MemberNamespace("beijing"), "another"
	for what, try := range map[string]func() error{
		"create another Lease": func() error { return member.Create(ctx, another.DeepCopy()) },
		"apply another Lease":  func() error { return apply("another") },
		"update another Lease": func() error { return member.Update(ctx, another.DeepCopy()) }, // creates it if it doesn't exist
		"create a record": func() error {
			r := record("lyon")
			r.Name = "db.shop"
			r.Spec.ServiceName = "db"
			return member.Create(ctx, r)
		},
		"update a record": func() error { return member.Update(ctx, theirs.DeepCopy()) },
		"delete a record": func() error { return member.Delete(ctx, theirs.DeepCopy()) },
		"delete all records": func() error {
			return member.DeleteAllOf(ctx, &clustersetv1alpha1.ExportedService{}, client.InNamespace(theirs.Namespace))
		},
		"send a heartbeat":      func() error { return member.Create(ctx, lease) },
		"change its own place":  func() error { return member.Update(ctx, mc.DeepCopy()) },
		"say that it is Ready":  func() error { return member.Status().Update(ctx, mc.DeepCopy()) },
		"read the hub's Secret": func() error { return member.List(ctx, &corev1.SecretList{}) },
		"read Services":         func() error { return member.List(ctx, &corev1.ServiceList{}) },
	} {
		if err := try(); !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
