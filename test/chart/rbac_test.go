package chart

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
)

// The end-to-end tests run each process with the rights in test/fleet/rbac, so those are enough. The chart gives the same, and
// beside them only what is listed here: a pod's own needs, which those tests' processes don't have.
func TestRolesAreThoseOfTheEndToEndTests(t *testing.T) {
	leader := func(lease string) []string {
		return []string{
			"Role create coordination.k8s.io/leases", "Role get coordination.k8s.io/leases " + lease,
			"Role update coordination.k8s.io/leases " + lease, "Role create /events", "Role patch /events",
		}
	}
	properties := []string{
		"ClusterRole create about.k8s.io/clusterproperties", "ClusterRole get about.k8s.io/clusterproperties cluster.clusterset.k8s.io",
		"ClusterRole update about.k8s.io/clusterproperties cluster.clusterset.k8s.io",
	}
	more := make(map[string]bool)
	for _, o := range only(objects(t, read(t, filepath.Join(root, "test", "fleet", "rbac", "hub-members.yaml"))), "ClusterRole") {
		grants(more, o.GetKind(), as[rbacv1.ClusterRole](t, o).Rules)
	}
	members := slices.Collect(maps.Keys(more))
	for _, c := range []struct {
		component, values string
		more              []string
	}{
		{"dns", "", []string{"Role get /services", "ClusterRole get /namespaces kube-system"}},
		{"dns", "{dns: {snapshot: {enabled: false}}}", []string{"Role get /services"}},
		{"dns", "{dns: {mode: clusterDNS, service: {clusterIP: 10.96.0.10}}}", []string{
			"Role get /services", "ClusterRole get /namespaces kube-system", // and what the kubernetes plugin reads
			"ClusterRole list /services", "ClusterRole watch /services", "ClusterRole list /namespaces", "ClusterRole watch /namespaces",
		}},
		{"member", "", append(leader("clusterset-member-leader"), properties...)},
		{"member", "{member: {createNamespaces: true}}", append(append(leader("clusterset-member-leader"), properties...), "ClusterRole create /namespaces")},
		{"hub", "{hub: {enabled: true}}", leader("clusterset-hub-leader")},
		{"hub", "{hub: {enabled: true, manageMembers: true, server: 'https://hub.example.com:6443'}}", append(leader("clusterset-hub-leader"), members...)},
	} {
		t.Run(c.component+" "+c.values, func(t *testing.T) {
			tested := objects(t, read(t, filepath.Join(root, "test", "fleet", "rbac", c.component+".yaml")))
			want := make(map[string]bool)
			for _, o := range only(tested, "Role", "ClusterRole") {
				grants(want, o.GetKind(), as[rbacv1.ClusterRole](t, o).Rules)
			}
			for _, grant := range c.more {
				want[grant] = true
			}
			all := objects(t, render(t, Options{"clusterset", "clusterset-system", c.values, newest}).Manifests)
			got := make(map[string]bool)
			for _, kind := range []string{"Role", "ClusterRole"} {
				grants(got, kind, rules(t, all, kind, c.component))
			}
			if diff := cmp.Diff(slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got))); diff != "" {
				t.Errorf("rights of %s (-wanted +rendered):\n%s", c.component, diff)
			}
		})
	}
}

// Whatever the values, the DNS servers read and nothing else, no rule has a wildcard, and no component touches Secrets but by
// name. The hub process may make them, where it makes members; it reads none, and joinsByMemberClusters says where.
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

// grants writes rules out one by one: "ClusterRole get /services name".
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
