package chart

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// The end-to-end tests run each process with the chart's current roles (see Rights), which shows that the roles suffice.
func TestRolesAreThoseOfTheEndToEndTests(t *testing.T) {
	rights, err := Rights(chartDir)
	if err != nil {
		t.Fatal(err)
	}
	fresh(t, filepath.Join(root, "test", "fleet", "rbac"), rights)
}

// Whatever the values, the DNS servers can only read, no rule has a wildcard, and no component may access Secrets except by name.
// The exception is a hub process that creates members: it may create Secrets, but not read them. joinsByMemberClusters tests where.
func TestRolesAreNarrow(t *testing.T) {
	for _, e := range examples(t) {
		all := objects(t, render(t, e.Options).Manifests)
		for _, component := range components {
			for grant := range grantsOf(t, all, component) {
				if grant == "ClusterRole create /secrets" && component == "hub" && e.name == "hub-members" {
					continue
				}
				verb := strings.Fields(grant)[1]
				if strings.Contains(grant, "*") || strings.HasSuffix(grant, "/secrets") || component == "dns" && !slices.Contains([]string{"get", "list", "watch"}, verb) {
					t.Errorf("%s: %s may %s", e.name, component, grant)
				}
			}
		}
	}
}

// grantsOf returns each right of a component separately, as "ClusterRole get /services name".
func grantsOf(t *testing.T, all []*unstructured.Unstructured, component string) map[string]bool {
	t.Helper()
	grants := map[string]bool{}
	for _, o := range only(all, "Role", "ClusterRole") {
		if o.GetLabels()["app.kubernetes.io/component"] != component {
			continue
		}
		for _, rule := range as[rbacv1.ClusterRole](t, o).Rules { // a Role's rules have the same form
			if len(rule.ResourceNames) == 0 {
				rule.ResourceNames = []string{""}
			}
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					for _, verb := range rule.Verbs {
						for _, name := range rule.ResourceNames {
							grants[strings.TrimSpace(fmt.Sprintf("%s %s %s/%s %s", o.GetKind(), verb, group, resource, name))] = true
						}
					}
				}
			}
		}
	}
	return grants
}
