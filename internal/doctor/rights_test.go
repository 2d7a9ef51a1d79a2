package doctor

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// optional are rights without which everything works but state files and ClusterProperties.
var optional = []string{
	"get /namespaces", "create about.k8s.io/clusterproperties", "get about.k8s.io/clusterproperties", "update about.k8s.io/clusterproperties",
}

// What --for looks at are the rights that the end-to-end tests' processes run with, which test/chart takes from the chart's roles.
// One that is missing here would be a process that fails while doctor is content.
func TestRolesAreThoseOfTheEndToEndTests(t *testing.T) {
	for part, table := range map[string][]rbacv1.PolicyRule{"dns": roles["dns"], "member": roles["member"], "hub": hubRoles["hub"], "hub-members": hubRoles["hub-members"]} {
		content, err := os.ReadFile(filepath.Join("..", "..", "test", "fleet", "rbac", part+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]bool{}
		for documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096); ; {
			var role rbacv1.ClusterRole
			if err := documents.Decode(&role); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			if role.Kind == "ClusterRole" {
				grants(want, role.Rules)
			}
		}
		got := map[string]bool{}
		grants(got, table)
		for _, right := range slices.Sorted(maps.Keys(want)) {
			if !got[right] && !slices.Contains(optional, right) {
				t.Errorf("doctor doesn't look at the right of %s to %s", part, right)
			}
		}
		for _, right := range slices.Sorted(maps.Keys(got)) {
			if !want[right] {
				t.Errorf("doctor looks for a right of %s to %s, without which the tests pass", part, right)
			}
		}
		if len(want) == 0 {
			t.Errorf("%s has no rights", part)
		}
	}
}

// grants writes rules out one by one.
func grants(to map[string]bool, rules []rbacv1.PolicyRule) {
	for _, right := range expand("", "", rules) {
		to[right.Verb+" "+right.Group+"/"+right.Resource] = true
	}
}

// A member of a set with communities mustn't be told that it lacks the right to read everything.
func TestRightsOfAMemberWithCommunities(t *testing.T) {
	reads := func(confined bool, namespace string) bool {
		return slices.ContainsFunc(wanted("member", "hub", "clusterset-member-lyon", confined), func(r Right) bool {
			return r.Resource == "exportedservices" && r.Verb == "list" && r.Namespace == namespace
		})
	}
	if !reads(false, "") || reads(true, "") || !reads(true, "clusterset-member-lyon") {
		t.Error("the wrong rights")
	}
}
