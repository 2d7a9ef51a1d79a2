package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/test/kube"
)

// requests has the verbs, each with its method, and whether its path names an object.
var requests = map[string]struct {
	method, query string
	named         bool
}{
	"get": {http.MethodGet, "", true}, "list": {http.MethodGet, "", false}, "watch": {http.MethodGet, "?watch=true&timeoutSeconds=1", false},
	"create": {http.MethodPost, "", false}, "update": {http.MethodPut, "", true}, "patch": {http.MethodPatch, "", true},
	"delete": {http.MethodDelete, "", true}, "deletecollection": {http.MethodDelete, "", false},
}

// The test tries every verb with the agent's own credentials, which have the rights that join gives a member: on objects in another member's
// namespace, on other kinds in any namespace, and on cluster-wide kinds. All must be forbidden, except the verbs that the table allows. cli/join
// asks the hub's authorizer about every kind that the hub serves; this test makes the requests.
func TestCredentialsReachNothingElse(t *testing.T) {
	f := cities(t)
	ns := f.Namespace("isolation")
	f.Member("minhang").Apply(exported(ns, "web", httpPort), slice(ns, "web", port8080, endpoint("10.202.13.1")))
	kube.Eventually(t, func() error { return holds(f.Hub, "minhang", ns, "web", "10.202.13.1") })
	before := versions(f.Hub, "minhang", ns)
	hub := f.Member("xicheng").OnHub()
	try := func(as rest.ImpersonationConfig, method, path string) (status int) {
		t.Helper()
		config := rest.CopyConfig(hub)
		config.Impersonate = as
		c, err := rest.HTTPClientFor(config)
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.NewRequestWithContext(t.Context(), method, hub.Host+path, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", map[bool]string{true: "application/merge-patch+json", false: "application/json"}[method == http.MethodPatch])
		response, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		return response.StatusCode
	}
	const core, ours, rbac = "/api/v1", "/apis/clusterset.dev/v1alpha1", "/apis/rbac.authorization.k8s.io/v1"
	const reading, nothing = "get list watch", ""
	own, theirs := "/namespaces/"+api.MemberNamespace("xicheng"), "/namespaces/"+api.MemberNamespace("minhang")
	record := api.ExportedServiceName(ns, "web")
	for _, r := range []struct{ collection, name, allowed string }{
		{ours + theirs + "/exportedservices", record, reading},
		{ours + theirs + "/exportedendpoints", record + ".x-0", reading},
		{ours + theirs + "/memberreports", clustersetv1alpha1.MemberReportName, "get"},
		{ours + "/memberclusters", "minhang", reading},
		{ours + "/memberclusters", "xicheng", reading},
		{"/apis/coordination.k8s.io/v1" + theirs + "/leases", api.HeartbeatLease, nothing},
		{"/apis/coordination.k8s.io/v1" + own + "/leases", "another", nothing},
		{core + own + "/secrets", "x", nothing},
		{core + theirs + "/secrets", "x", nothing},
		{core + "/namespaces/kube-system/configmaps", "extension-apiserver-authentication", nothing},
		{core + theirs + "/serviceaccounts", api.MemberServiceAccount, nothing},
		{core + "/namespaces/default/services", "kubernetes", nothing},
		{core + "/namespaces", api.MemberNamespace("minhang"), nothing},
		{"/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", "x", nothing},
		{rbac + own + "/roles", api.MemberRole, nothing},
		{rbac + own + "/rolebindings", api.MemberRole, nothing},
		{rbac + "/clusterroles", api.MemberClusterRole, nothing},
		{rbac + "/clusterrolebindings", api.MemberNamespace("minhang"), nothing},
		{"/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "memberclusters.clusterset.dev", nothing},
	} {
		for verb, request := range requests {
			path := r.collection
			if request.named {
				path += "/" + r.name
			}
			allowed := strings.Contains(" "+r.allowed+" ", " "+verb+" ")
			if status := try(rest.ImpersonationConfig{}, request.method, path+request.query); (status == http.StatusForbidden) == allowed || status == http.StatusUnauthorized {
				t.Errorf("%s %s: %d, want that it is allowed: %v", verb, path, status, allowed)
			}
		}
	}
	for _, as := range []rest.ImpersonationConfig{
		{UserName: fmt.Sprintf("system:serviceaccount:%s:%s", api.MemberNamespace("minhang"), api.MemberServiceAccount)},
		{UserName: "x", Groups: []string{"system:masters"}},
	} {
		if status := try(as, http.MethodGet, core+"/namespaces"); status != http.StatusForbidden {
			t.Errorf("it can pass for %+v: %d", as, status)
		}
	}
	if status := try(rest.ImpersonationConfig{}, http.MethodPost, core+theirs+"/serviceaccounts/"+api.MemberServiceAccount+"/token"); status != http.StatusForbidden {
		t.Errorf("it can have the other member's token: %d", status)
	}
	if now := versions(f.Hub, "minhang", ns); now != before {
		t.Errorf("the other member's records are\n%s, were\n%s", now, before)
	}
}
