package chart

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// The end-to-end tests run each process with the chart's current roles, which shows that the roles suffice. UPDATE=1 writes them.
func TestRolesAreThoseOfTheEndToEndTests(t *testing.T) {
	fresh(t, filepath.Join(root, "test", "fleet", "rbac"), rights(t))
}

var (
	rbacRE      = regexp.MustCompile(`(?m)^apiVersion: rbac\.`)
	labelsRE    = regexp.MustCompile(`(?m)^  labels:\n(    .*\n)+`)
	componentRE = regexp.MustCompile(`app\.kubernetes\.io/component: (\w+)`)
	subjectsRE  = regexp.MustCompile(`(?s)subjects:.*`)
	nameRE      = regexp.MustCompile(`(?m)^  name: (\S+)`)
)

// rights returns the roles of the chart, by the names of their files in test/fleet/rbac, each bound to a user instead of a
// ServiceAccount: clusterset-dns, clusterset-member or clusterset-hub. With them the end-to-end tests show that the chart's roles
// suffice. Namespaced roles are left out of dns.yaml, because only a pod has a Service of its own. The hub's are in
// hub-leader.yaml. Its rights to create members are in hub-members.yaml.
func rights(t *testing.T) map[string][]byte {
	t.Helper()
	rendered := render(t, Options{
		"clusterset", "clusterset-system", "{hub: {enabled: true, manageMembers: true, server: 'https://hub.example.com:6443'}}", newest,
	})
	files := make(map[string][]byte)
	for _, document := range separator.Split(rendered.Manifests, -1) {
		if !rbacRE.MatchString(document) {
			continue
		}
		file := componentRE.FindStringSubmatch(document)[1]
		user := fmt.Sprintf("subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: clusterset-%s}]", file)
		switch inNamespace := strings.Contains(document, "\n  namespace: "); {
		case strings.HasPrefix(nameRE.FindStringSubmatch(document)[1], "clusterset-hub-members:"):
			file = "hub-members"
		case inNamespace && file == "hub":
			file = "hub-leader"
		case inNamespace && file == "dns":
			continue
		}
		document = labelsRE.ReplaceAllString(document, "") // labels contain the chart's version
		document = subjectsRE.ReplaceAllString(document, user)
		if file += ".yaml"; files[file] == nil {
			files[file] = []byte("# Written by make generate.\n")
		}
		files[file] = fmt.Appendf(files[file], "---\n%s\n", strings.TrimSpace(document))
	}
	return files
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
