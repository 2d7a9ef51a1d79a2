package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/test/kube"
)

// verbs has the possible requests for a resource, and how to make them.
var verbs = map[string]func(context.Context, dynamic.ResourceInterface, *unstructured.Unstructured) error{
	"get": func(ctx context.Context, r dynamic.ResourceInterface, o *unstructured.Unstructured) error {
		_, err := r.Get(ctx, o.GetName(), metav1.GetOptions{})
		return err
	},
	"list": func(ctx context.Context, r dynamic.ResourceInterface, _ *unstructured.Unstructured) error {
		_, err := r.List(ctx, metav1.ListOptions{})
		return err
	},
	"watch": func(ctx context.Context, r dynamic.ResourceInterface, _ *unstructured.Unstructured) error {
		w, err := r.Watch(ctx, metav1.ListOptions{})
		if err == nil {
			w.Stop()
		}
		return err
	},
	"create": func(ctx context.Context, r dynamic.ResourceInterface, o *unstructured.Unstructured) error {
		_, err := r.Create(ctx, o, metav1.CreateOptions{})
		return err
	},
	"update": func(ctx context.Context, r dynamic.ResourceInterface, o *unstructured.Unstructured) error {
		_, err := r.Update(ctx, o, metav1.UpdateOptions{})
		return err
	},
	"patch": func(ctx context.Context, r dynamic.ResourceInterface, o *unstructured.Unstructured) error {
		_, err := r.Patch(ctx, o.GetName(), types.MergePatchType, []byte(`{"metadata":{"labels":{"x":"y"}}}`), metav1.PatchOptions{})
		return err
	},
	"delete": func(ctx context.Context, r dynamic.ResourceInterface, o *unstructured.Unstructured) error {
		return r.Delete(ctx, o.GetName(), metav1.DeleteOptions{})
	},
	"deletecollection": func(ctx context.Context, r dynamic.ResourceInterface, _ *unstructured.Unstructured) error {
		return r.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	},
}

const (
	reading = "get list watch"
	nothing = ""
)

// The test tries every verb with the agent's own credentials, which have the rights that join gives a member. It tries them
// on objects in another member's namespace, on other kinds in any namespace, and on cluster-wide kinds. All must be
// forbidden, except the verbs that the table allows. cli/join asks the hub's authorizer about every kind that the hub
// serves; this test makes the requests.
func TestCredentialsReachNothingElse(t *testing.T) {
	f := cities(t)
	ns := f.Namespace("isolation")
	victim := f.Member("minhang")
	victim.Apply(exported(ns, "web", httpPort), slice(ns, "web", "1", "IPv4", port8080, endpoint("10.202.13.1")))
	kube.Eventually(t, func() error { return f.Recorded("minhang", ns, "web", true) })
	kube.Eventually(t, func() error { // its endpoints are a separate record, which is written later
		if records := versions(f.Hub, "minhang", ns); !strings.Contains(records, "web."+ns+".") {
			return fmt.Errorf("no endpoints of web.%s among %s", ns, records)
		}
		return nil
	})
	before := versions(f.Hub, "minhang", ns)

	attacker := f.Member("xicheng")
	c, err := dynamic.NewForConfig(attacker.OnHub())
	if err != nil {
		t.Fatal(err)
	}
	own, theirs := api.MemberNamespace("xicheng"), api.MemberNamespace("minhang")
	name := api.ExportedServiceName(ns, "web")
	for _, r := range []struct {
		group, version, resource, kind, namespace, name string
		allowed                                         string
	}{
		{"clusterset.dev", "v1alpha1", "exportedservices", "ExportedService", theirs, name, reading},
		{"clusterset.dev", "v1alpha1", "exportedendpoints", "ExportedEndpoints", theirs, name + ".x-0", reading},
		{"clusterset.dev", "v1alpha1", "memberreports", "MemberReport", theirs, clustersetv1alpha1.MemberReportName, "get"},
		{"coordination.k8s.io", "v1", "leases", "Lease", theirs, api.HeartbeatLease, nothing},
		{"coordination.k8s.io", "v1", "leases", "Lease", own, "another", "create"}, // the authorizer doesn't know the name of an object to be created
		{"coordination.k8s.io", "v1", "leases", "Lease", "kube-system", "x", nothing},
		{"clusterset.dev", "v1alpha1", "memberclusters", "MemberCluster", "", "minhang", reading},
		{"clusterset.dev", "v1alpha1", "memberclusters", "MemberCluster", "", "xicheng", reading},
		{"", "v1", "secrets", "Secret", own, "x", nothing},
		{"", "v1", "secrets", "Secret", theirs, "x", nothing},
		{"", "v1", "secrets", "Secret", "kube-system", "x", nothing},
		{"", "v1", "configmaps", "ConfigMap", "kube-system", "extension-apiserver-authentication", nothing},
		{"", "v1", "serviceaccounts", "ServiceAccount", own, api.MemberServiceAccount, nothing},
		{"", "v1", "serviceaccounts", "ServiceAccount", theirs, api.MemberServiceAccount, nothing},
		{"", "v1", "pods", "Pod", own, "x", nothing},
		{"", "v1", "pods", "Pod", "default", "x", nothing},
		{"", "v1", "services", "Service", "default", "kubernetes", nothing},
		{"", "v1", "namespaces", "Namespace", "", theirs, nothing},
		{"", "v1", "nodes", "Node", "", "x", nothing},
		{"", "v1", "events", "Event", own, "x", nothing},
		{"discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", "default", "x", nothing},
		{"apps", "v1", "deployments", "Deployment", own, "x", nothing},
		{"rbac.authorization.k8s.io", "v1", "roles", "Role", own, api.MemberRole, nothing},
		{"rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding", own, api.MemberRole, nothing},
		{"rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", "", api.MemberClusterRole, nothing},
		{"rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", "", theirs, nothing},
		{"apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", "", "memberclusters.clusterset.dev", nothing},
	} {
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(schema.GroupVersionKind{Group: r.group, Version: r.version, Kind: r.kind})
		o.SetNamespace(r.namespace)
		o.SetName(r.name)
		var resource dynamic.ResourceInterface = c.Resource(schema.GroupVersionResource{Group: r.group, Version: r.version, Resource: r.resource})
		if r.namespace != "" {
			resource = resource.(dynamic.NamespaceableResourceInterface).Namespace(r.namespace)
		}
		for verb, try := range verbs {
			if strings.Contains(" "+r.allowed+" ", " "+verb+" ") {
				continue
			}
			if err := try(t.Context(), resource, o.DeepCopy()); !apierrors.IsForbidden(err) {
				t.Errorf("%s %s %s/%s: %v, want it forbidden", verb, r.resource, r.namespace, r.name, err)
			}
		}
	}
	for what, config := range map[string]func(*rest.Config){
		"the other member": func(c *rest.Config) {
			c.Impersonate.UserName = "system:serviceaccount:" + theirs + ":" + api.MemberServiceAccount
		},
		"an admin": func(c *rest.Config) { c.Impersonate.UserName, c.Impersonate.Groups = "x", []string{"system:masters"} },
	} {
		impersonating := attacker.OnHub()
		config(impersonating)
		k, err := kubernetes.NewForConfig(impersonating)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := k.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("it can pass for %s: %v", what, err)
		}
	}
	k, err := kubernetes.NewForConfig(attacker.OnHub())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.CoreV1().ServiceAccounts(theirs).CreateToken(t.Context(), api.MemberServiceAccount, &authenticationv1.TokenRequest{}, metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("it can have the other member's token: %v", err)
	}
	if now := versions(f.Hub, "minhang", ns); now != before {
		t.Errorf("the other member's records are\n%s, were\n%s", now, before)
	}
}
