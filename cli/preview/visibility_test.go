package preview

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/merge"
	"github.com/clusterset/clusterset/internal/topology"
)

// apart returns four clusters in one zone, so that only communities and export-to distinguish them: a and b are in x, c is in
// y, and d is in both.
func apart(t testing.TB) *set {
	s := newSet(t, "a z r", "b z r", "c z r", "d z r")
	for name, in := range map[string][]string{"a": {"x"}, "b": {"x"}, "c": {"y"}, "d": {"x", "y"}} {
		s.member(name).Spec.Communities = in
	}
	s.export("a", "shop/web", "None", "z=1")
	s.export("c", "shop/web", "None", "z=2")
	s.export("a", "shop/pay", "None", "z=1")
	s.services[2].Spec.ExportTo = []string{"b"}
	return s
}

func TestEachPlaceHasWhatItsClusterMaySee(t *testing.T) {
	s := apart(t).state()
	for service, want := range map[string]string{"shop/web": "a:1 a:1 c:2 a:1 c:2", "shop/pay": "a:1 a:1 NXDOMAIN NXDOMAIN"} {
		var got []string
		for _, p := range s.Places() {
			a, err := s.Answers(service, p, Options{})
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, text(&a.DNS))
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("%s: a to d have %s, want %s", service, text, want)
		}
	}
}

func TestChangesOfWhoSeesWhat(t *testing.T) {
	web, pay := Options{Services: []types.NamespacedName{{Namespace: "shop", Name: "web"}}}, Options{Services: []types.NamespacedName{{Namespace: "shop", Name: "pay"}}}
	in := func(cluster string, to ...string) Change {
		return Change{Communities: &Communities{Cluster: cluster, To: to}}
	}
	to := func(service, from string, to ...string) Change {
		return Change{ExportTo: &ExportTo{Service: service, From: from, To: to}}
	}
	for _, c := range []struct {
		name    string
		what    []Change
		options Options
		want    []string
	}{
		{"b is put into y", []Change{in("b", "y")}, Options{}, []string{
			"shop/pay from b/z/r: a:1 => NXDOMAIN [lost] | a:1 => NXDOMAIN [lost] | .",
			"shop/web from b/z/r: a:1 => c:2 [more] | a:1 => c:2 [more] | .",
		}},
		{"c joins x as well: its export reaches a and b, and d's view stays", []Change{in("c", "x", "y")}, web, []string{
			"shop/web from c/z/r: c:2 => a:1 c:2 [more] | c:2 => a:1 c:2 [more] | .",
			"shop/web from a/z/r b/z/r: a:1 => a:1 c:2 [more] | a:1 => a:1 c:2 [more] | .",
		}},
		{"d into none of theirs", []Change{in("d", "default")}, web, []string{
			"shop/web from d/z/r: a:1 c:2 => NXDOMAIN [lost] | a:1 c:2 => NXDOMAIN [lost] | .",
		}},
		{"by way of the default community nobody who stays loses a name", []Change{in("a", "default", "x"), in("b", "default", "x"), in("d", "default", "x", "y"), in("a", "x"), in("b", "x"), in("d", "x", "y")}, Options{}, nil},
		{"an export to c, which shares no community with a", []Change{to("shop/pay", "", "b", "c")}, pay, nil},
		{"an export to a community", []Change{to("shop/pay", "", "y")}, pay, []string{
			"shop/pay from b/z/r: a:1 => NXDOMAIN [lost] | a:1 => NXDOMAIN [lost] | .",
			"shop/pay from d/z/r: NXDOMAIN => a:1 [gained] | NXDOMAIN => a:1 [gained] | .",
		}},
		{"an export to all that may see it", []Change{to("shop/pay", "a", "-")}, pay, []string{
			"shop/pay from d/z/r: NXDOMAIN => a:1 [gained] | NXDOMAIN => a:1 [gained] | .",
		}},
	} {
		t.Run(c.name, func(t *testing.T) { expect(t, apart(t).state(), c.options, c.what, c.want...) })
	}
}

// A conflict concerns only the clusters that see both exports. It begins when a cluster starts to see both.
func TestConflictsOfThoseWhoSeeBothSides(t *testing.T) {
	s := apart(t)
	s.services[1].Spec.Ports[0].Port = 81
	state := s.state()
	key := types.NamespacedName{Namespace: "shop", Name: "web"}
	if all := state.Exported(key).Conflicts; len(all) != 1 || strings.Join(all[0].By, " ") != "d" {
		t.Errorf("conflicts %+v, want one that d sees", all)
	}
	only := Options{From: topology.Location{Cluster: "b"}}
	expect(t, state, only, []Change{{Communities: &Communities{Cluster: "b", To: []string{"x", "y"}}}},
		"shop/web from b/z/r: a:1 => a:1 c:2 [more] | a:1 => a:1 c:2 [more] | .",
		"shop/web: conflict over ports, a wins, [c] differ, ends false")
	expect(t, state, Options{}, []Change{{ExportTo: &ExportTo{Service: "shop/web", From: "c", To: []string{"b"}}}},
		"shop/web from d/z/r: a:1 c:2 => a:1 [fewer] | a:1 c:2 => a:1 [fewer] | .",
		"shop/web: conflict over ports, a wins, [c] differ, ends true")

	unseen := state.Unseen(types.NamespacedName{Namespace: "shop", Name: "pay"})["a"]
	if len(unseen) != 2 || unseen[0].Why != merge.Apart || unseen[0].From[0] != "c" || unseen[1].Why != merge.Withheld || unseen[1].From[0] != "d" {
		t.Errorf("a's shop/pay is unseen by %+v", unseen)
	}
}

func TestImpossibleChangesOfWhoSeesWhat(t *testing.T) {
	many := make([]string, clustersetv1alpha1.MaxCommunities+1)
	for i := range many {
		many[i] = strings.Repeat("m", i%60+1)
	}
	for _, c := range []struct {
		what Change
		want string
	}{
		{Change{Communities: &Communities{Cluster: "z", To: []string{"x"}}}, "there is no cluster z"},
		{Change{Communities: &Communities{Cluster: "a"}}, "communities of a: to is missing: want at least one; the community of clusters that name none is default"},
		{Change{Communities: &Communities{Cluster: "a", To: []string{"x", "Y"}}}, `communities of a: spec.communities[1]: Invalid value: "Y"`},
		{Change{Communities: &Communities{Cluster: "a", To: []string{"x", "x"}}}, "Duplicate"},
		{Change{Communities: &Communities{Cluster: "a", To: many}}, "Too many"},
		{Change{ExportTo: &ExportTo{Service: "shop/web"}}, "to is missing: want clusters or communities, or - for all"},
		{Change{ExportTo: &ExportTo{Service: "shop/web", To: []string{"*"}}}, `exportTo: "*" must be a DNS label`},
		{Change{ExportTo: &ExportTo{Service: "shop/web", To: many}}, "want 64 at most"},
		{Change{ExportTo: &ExportTo{Service: "shop/web", From: "b", To: []string{"a"}}}, "shop/web isn't exported from b, but from a, c"},
	} {
		if _, err := apart(t).state().Preview(t.Context(), []Change{c.what}, Options{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.what.String(), err, c.want)
		}
	}
}
