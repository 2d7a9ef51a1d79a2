package chart

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
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
		for _, component := range []string{"dns", "member", "hub"} {
			for _, kind := range []string{"Role", "ClusterRole"} {
				got := make(map[string]bool)
				grants(got, kind, rules(t, all, kind, component))
				for grant := range got {
					f := strings.Fields(grant)
					if grant == "ClusterRole create /secrets" && component == "hub" && e.name == "hub-members" {
						continue
					}
					if strings.Contains(grant, "*") || strings.HasSuffix(grant, "/secrets") || component == "dns" && !slices.Contains([]string{"get", "list", "watch"}, f[1]) {
						t.Errorf("%s: %s may %s", e.name, component, grant)
					}
				}
			}
		}
	}
}

// grants lists each right of the rules separately, as "ClusterRole get /services name".
func grants(to map[string]bool, kind string, rules []rbacv1.PolicyRule) {
	for _, rule := range rules {
		names := rule.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					for _, name := range names {
						to[strings.TrimSpace(fmt.Sprintf("%s %s %s/%s %s", kind, verb, group, resource, name))] = true
					}
				}
			}
		}
	}
}
