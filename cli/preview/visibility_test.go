package preview

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

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

func TestChangesOfWhoSeesWhat(t *testing.T) {
	web, pay := Options{Services: []types.NamespacedName{{Namespace: "shop", Name: "web"}}}, Options{Services: []types.NamespacedName{{Namespace: "shop", Name: "pay"}}}
	in := func(cluster string, to ...string) Change {
		return Change{Place: &Place{Cluster: cluster, Communities: to}}
	}
	to := func(service string, to ...string) Change {
		return Change{Policy: &Policy{Service: service, ExportTo: to}}
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
		{"an export to c, which shares no community with a", []Change{to("shop/pay", "b", "c")}, pay, nil},
		{"an export to a community", []Change{to("shop/pay", "y")}, pay, []string{
			"shop/pay from b/z/r: a:1 => NXDOMAIN [lost] | a:1 => NXDOMAIN [lost] | .",
			"shop/pay from d/z/r: NXDOMAIN => a:1 [gained] | NXDOMAIN => a:1 [gained] | .",
		}},
		{"an export to all that may see it", []Change{to("shop/pay", "-")}, pay, []string{
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
	expect(t, state, Options{}, []Change{{Policy: &Policy{Service: "shop/web", ExportTo: []string{"a"}}}},
		"shop/web from b/z/r: a:1 => NXDOMAIN [lost] | a:1 => NXDOMAIN [lost] | .",
		"shop/web from d/z/r: a:1 c:2 => NXDOMAIN [lost] | a:1 c:2 => NXDOMAIN [lost] | .",
		"shop/web: conflict over ports, a wins, [c] differ, ends true")
	s.member("d").Spec.Communities = []string{"y"}
	expect(t, s.state(), Options{From: topology.Location{Cluster: "b"}}, []Change{{Place: &Place{Cluster: "b", Communities: []string{"x", "y"}}}},
		"shop/web from b/z/r: a:1 => a:1 c:2 [more] | a:1 => a:1 c:2 [more] | .",
		"shop/web: conflict over ports, a wins, [c] differ, ends false")
}
