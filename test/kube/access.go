package kube

import (
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Access asks the authorizer about every verb on every resource that the API server serves, with the credentials in config and in
// each namespace of places ("" means all namespaces). It returns what is allowed, sorted, as "verb resource[/subresource].group
// place", where place is the namespace's key. It leaves out reading ClusterTrustBundles, the public trust anchors, which Kubernetes
// lets every service account do since 1.37 (role system:cluster-trust-bundle-discovery).
func (c *ControlPlane) Access(t testing.TB, config *rest.Config, places map[string]string) []string {
	t.Helper()
	d, err := discovery.NewDiscoveryClientForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	_, lists, err := d.ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	config = rest.CopyConfig(config)
	config.QPS = -1
	reviews, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	verbs := []string{
		"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection",
		"bind", "escalate", "impersonate", "approve", "sign", "use", "attest",
	}
	var all []string
	for _, list := range lists {
		group := ""
		if g, _, ok := strings.Cut(list.GroupVersion, "/"); ok {
			group = g
		}
		for _, r := range list.APIResources {
			resource, sub, _ := strings.Cut(r.Name, "/")
			for _, verb := range verbs {
				for place, namespace := range places {
					review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
						ResourceAttributes: &authorizationv1.ResourceAttributes{
							Verb: verb, Group: group, Resource: resource, Subresource: sub, Namespace: namespace,
						},
					}}
					review, err := reviews.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{})
					if err != nil {
						t.Fatal(err)
					}
					public := r.Name == "clustertrustbundles" && slices.Contains([]string{"get", "list", "watch"}, verb)
					if review.Status.Allowed && !public {
						all = append(all, strings.TrimSpace(verb+" "+strings.Trim(r.Name+"."+group, ".")+" "+place))
					}
				}
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all) // a resource can be served in several versions
}
