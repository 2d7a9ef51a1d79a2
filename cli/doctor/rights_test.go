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

// optional are permissions that are only needed for state files and ClusterProperties.
var optional = []string{
	"get /namespaces kube-system", "create about.k8s.io/clusterproperties ", "get about.k8s.io/clusterproperties cluster.clusterset.k8s.io",
	"update about.k8s.io/clusterproperties cluster.clusterset.k8s.io",
}

// doctor --for checks the permissions that the processes of the end-to-end tests run with. test/chart takes those from the chart's
// roles. If one were missing here, a process would fail although doctor reports no problem.
func TestRolesAreThoseOfTheEndToEndTests(t *testing.T) {
	for part, table := range map[string][]rbacv1.PolicyRule{
		"dns": roles()["cluster"]["dns"], "member": roles()["cluster"]["member"], "hub": roles()["hub"]["hub"], "hub-members": roles()["hub"]["hub-members"],
	} {
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

// grants adds each permission in the rules to the map.
func grants(to map[string]bool, rules []rbacv1.PolicyRule) {
	for _, right := range expand("", "", rules) {
		to[right.Verb+" "+right.Group+"/"+right.Resource+" "+right.Name] = true
	}
}

// doctor must not report a missing permission to read all records to a member of a set with communities, but one to read a peer's.
func TestRightsOfAMemberWithCommunities(t *testing.T) {
	const lyon, nice = "clusterset-member-lyon", "clusterset-member-nice"
	for what, c := range map[string]struct {
		read, want []string // namespaces
	}{
		"all see each other": {nil, []string{"", lyon}},
		"no peer":            {[]string{lyon}, []string{lyon}},
		"a peer":             {[]string{lyon, nice}, []string{lyon, nice}},
	} {
		var got []string
		for _, r := range wanted("member", "hub", lyon, c.read) {
			if r.Resource == "exportedservices" && r.Verb == "list" {
				got = append(got, r.Namespace)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: it must be able to read %q, want %q", what, got, c.want)
		}
	}
}
