package preview

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/internal/topology"
)

// asia has four clusters in two regions: beijing in two zones, tianjin in one of these, and shanghai and hangzhou in another region.
func asia(t testing.TB) *set {
	return newSet(t, "beijing bj-a,bj-b north", "tianjin bj-a north", "shanghai sh south", "hangzhou hz south")
}

// text abbreviates an Answer to its clusters with their numbers of ready endpoints, or to its result.
func text(a *Answer) string {
	switch {
	case a == nil:
		return "-"
	case a.ByClusterSetIP:
		return "VIP"
	case a.Result != NoError:
		return string(a.Result)
	}
	var words []string
	for _, s := range a.Clusters {
		word := fmt.Sprintf("%s:%d", s.Cluster, s.Ready)
		if s.Down {
			word += "!"
		}
		words = append(words, word)
	}
	if a.Degraded {
		words = append(words, "degraded")
	}
	return strings.Join(words, " ")
}

// changes abbreviates a Result to lines of the form "service place DNS | svc.global | ClusterSetIP: before => after: effects". A dot
// stands for an unchanged answer.
func changes(r *Result) (lines []string) {
	for _, svc := range r.Services {
		for _, c := range svc.Cells {
			var views []string
			for _, v := range []struct {
				before, after *Answer
				effects       []Effect
			}{{&c.Before.DNS, &c.After.DNS, c.Effects.DNS}, {&c.Before.Global, &c.After.Global, c.Effects.Global}, {c.Before.ClusterSetIP, c.After.ClusterSetIP, c.Effects.ClusterSetIP}} {
				if len(v.effects) == 0 {
					views = append(views, ".")
					continue
				}
				views = append(views, fmt.Sprintf("%s => %s %v", text(v.before), text(v.after), v.effects))
			}
			var places []string
			for _, p := range c.Places {
				places = append(places, p.String())
			}
			slices.Sort(places)
			lines = append(lines, fmt.Sprintf("%s/%s from %s: %s", svc.Namespace, svc.Name, strings.Join(places, " "), strings.Join(views, " | ")))
		}
		for _, c := range svc.Conflicts {
			lines = append(lines, fmt.Sprintf("%s/%s: conflict over %s, %s wins, %v differ, ends %v", svc.Namespace, svc.Name, c.Field, c.Winner, c.Clusters, c.Ends))
		}
	}
	return lines
}

func expect(t *testing.T, s *State, o Options, what []Change, want ...string) *Result {
	t.Helper()
	r, err := s.Preview(t.Context(), what, o)
	if err != nil {
		t.Fatal(err)
	}
	if got := changes(r); !slices.Equal(got, want) {
		t.Errorf("changes are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if _, err := json.Marshal(r); err != nil {
		t.Error(err)
	}
	return r
}

// shop returns the set of the tests: three clusters export web, beijing exports only and db, and hangzhou exports else.
func shop(t testing.TB) *set {
	s := asia(t)
	s.export("beijing", "shop/web", "", "bj-a=2", "bj-b=2")
	s.export("tianjin", "shop/web", "", "bj-a=1")
	s.export("shanghai", "shop/web", "", "sh=3")
	s.export("beijing", "shop/only", "", "bj-a=1")
	s.export("beijing", "shop/db", "None", "bj-a=1")
	s.export("hangzhou", "shop/else", "", "hz=1")
	return s
}

func TestPreview(t *testing.T) {
	all := []Change{{Leave: []string{"beijing", "tianjin", "shanghai"}}}
	for _, c := range []struct {
		name    string
		what    []Change
		options Options
		want    []string
	}{
		{name: "down", what: []Change{{Down: []string{"beijing"}}}, want: []string{
			"shop/db from hangzhou/hz/south shanghai/sh/south: beijing:1 => NXDOMAIN [lost] | beijing:1 => NXDOMAIN [lost] | .",
			"shop/db from tianjin/bj-a/north: beijing:1 => NXDOMAIN [lost] | beijing:1 => NXDOMAIN [lost] | .",
			"shop/only from hangzhou/hz/south shanghai/sh/south: . | beijing:1 => NODATA [lost] | beijing:1 => beijing:1! degraded [lost]",
			"shop/only from tianjin/bj-a/north: . | beijing:1 => NODATA [lost] | beijing:1 => beijing:1! degraded [lost]",
			"shop/web from tianjin/bj-a/north: . | beijing:4 tianjin:1 => tianjin:1 [fewer] | beijing:2 tianjin:1 => tianjin:1 [fewer]",
		}},
		// The hub hears beijing, so its endpoints are a last resort; for its own clients nothing changes.
		{name: "unreachable", what: []Change{{Unreachable: &Unreachable{Clusters: []string{"beijing"}, From: []string{"tianjin"}}}}, want: []string{
			"shop/db from tianjin/bj-a/north: beijing:1 => beijing:1 degraded [last-resort] | beijing:1 => beijing:1 degraded [last-resort] | .",
			"shop/only from tianjin/bj-a/north: . | beijing:1 => beijing:1 degraded [last-resort] | beijing:1 => beijing:1 degraded [last-resort]",
			"shop/web from tianjin/bj-a/north: . | beijing:4 tianjin:1 => tianjin:1 [fewer] | beijing:2 tianjin:1 => tianjin:1 [fewer]",
		}},
		{name: "unreachable from all others", what: []Change{{Unreachable: &Unreachable{Clusters: []string{"shanghai"}}}}, options: Options{Services: []types.NamespacedName{{Namespace: "shop", Name: "web"}}}, want: []string{
			"shop/web from hangzhou/hz/south: . | shanghai:3 => beijing:4 tianjin:1 [leaves-region more] | shanghai:3 => beijing:4 tianjin:1 [leaves-region more]",
		}},
		// Drained endpoints still serve if no others are left.
		{name: "drain", what: []Change{{Drain: []string{"beijing"}}}, want: []string{
			"shop/db from beijing/bj-a/north tianjin/bj-a/north: beijing:1 => beijing:1 degraded [last-resort] | beijing:1 => beijing:1 degraded [last-resort] | .",
			"shop/db from beijing/bj-b/north: beijing:1 => beijing:1 degraded [last-resort] | beijing:1 => beijing:1 degraded [last-resort] | .",
			"shop/db from hangzhou/hz/south shanghai/sh/south: beijing:1 => beijing:1 degraded [last-resort] | beijing:1 => beijing:1 degraded [last-resort] | .",
			"shop/only from beijing/bj-a/north tianjin/bj-a/north: . | beijing:1 => beijing:1 degraded [last-resort] | beijing:1 => beijing:1 degraded [last-resort]",
			"shop/only from beijing/bj-b/north: . | beijing:1 => beijing:1 degraded [last-resort] | beijing:1 => beijing:1 degraded [last-resort]",
			"shop/only from hangzhou/hz/south shanghai/sh/south: . | beijing:1 => beijing:1 degraded [last-resort] | beijing:1 => beijing:1 degraded [last-resort]",
			"shop/web from beijing/bj-b/north: . | beijing:4 => tianjin:1 [leaves-zone fewer] | beijing:2 => tianjin:1 [leaves-zone fewer]",
			"shop/web from beijing/bj-a/north tianjin/bj-a/north: . | beijing:4 tianjin:1 => tianjin:1 [fewer] | beijing:2 tianjin:1 => tianjin:1 [fewer]",
		}},
		{name: "drain, as one place sees one service", what: []Change{{Drain: []string{"beijing"}}}, options: Options{
			Services: []types.NamespacedName{{Namespace: "shop", Name: "web"}}, From: topology.Location{Zone: "bj-b"},
		}, want: []string{
			"shop/web from beijing/bj-b/north: . | beijing:4 => tianjin:1 [leaves-zone fewer] | beijing:2 => tianjin:1 [leaves-zone fewer]",
		}},
		{name: "two changes make up for each other", what: []Change{{Drain: []string{"beijing"}}, {Undrain: []string{"beijing"}}}},
		{name: "all that export it leave", what: all, options: Options{Services: []types.NamespacedName{{Namespace: "shop", Name: "web"}}}, want: []string{
			"shop/web from hangzhou/hz/south: VIP => NXDOMAIN [lost] | shanghai:3 => NXDOMAIN [lost] | shanghai:3 => - [lost]",
		}},
		{name: "export", what: []Change{{Export: &Export{Service: "shop/else", From: "shanghai", Records: shop(t).records("shanghai", "shop/else", "", "sh=2")}}}, want: []string{
			"shop/else from shanghai/sh/south: . | hangzhou:1 => shanghai:2 [more] | hangzhou:1 => shanghai:2 [more]",
			"shop/else from beijing/bj-a/north beijing/bj-b/north tianjin/bj-a/north: . | hangzhou:1 => hangzhou:1 shanghai:2 [more] | hangzhou:1 => hangzhou:1 shanghai:2 [more]",
		}},
		{
			name: "an export of another type", what: []Change{{Export: &Export{Service: "shop/else", From: "shanghai", Records: shop(t).records("shanghai", "shop/else", "None", "sh=2")}}},
			options: Options{From: topology.Location{Cluster: "shanghai"}}, want: []string{
				"shop/else from shanghai/sh/south: . | . | hangzhou:1 => shanghai:2 [more]",
				"shop/else: conflict over type, hangzhou wins, [shanghai] differ, ends false",
			},
		},
		{
			name: "the first of a new service", what: []Change{{Export: &Export{Service: "shop/new", From: "hangzhou", Records: shop(t).records("hangzhou", "shop/new", "", "hz=2")}}},
			options: Options{From: topology.Location{Cluster: "hangzhou"}}, want: []string{
				"shop/new from hangzhou/hz/south: NXDOMAIN => VIP [gained] | NXDOMAIN => hangzhou:2 [gained] | - => hangzhou:2 [gained]",
			},
		},
		{name: "place", what: []Change{{Place: &Place{Cluster: "tianjin", Region: "south"}}}, options: Options{Services: []types.NamespacedName{{Namespace: "shop", Name: "web"}}}, want: []string{
			"shop/web from tianjin/bj-a/south: . | beijing:4 tianjin:1 => tianjin:1 [fewer] | beijing:2 tianjin:1 => tianjin:1 [fewer]",
			"shop/web from beijing/bj-a/north: . | beijing:4 tianjin:1 => beijing:4 [fewer] | beijing:2 tianjin:1 => beijing:2 [fewer]",
			"shop/web from hangzhou/hz/south: . | shanghai:3 => shanghai:3 tianjin:1 [more] | shanghai:3 => shanghai:3 tianjin:1 [more]",
		}},
		{name: "policy", what: []Change{{Policy: &Policy{Service: "shop/web", ServicePolicy: clustersetv1alpha1.ServicePolicy{Boundary: "region", MinReady: 4}}}}, want: []string{
			"shop/web from beijing/bj-a/north tianjin/bj-a/north: . | . | beijing:2 tianjin:1 => beijing:4 tianjin:1 [leaves-zone more]",
			"shop/web from beijing/bj-b/north: . | . | beijing:2 => beijing:4 tianjin:1 [leaves-zone more]",
		}},
		{name: "boundary", what: []Change{{Policy: &Policy{Service: "shop/only", ServicePolicy: clustersetv1alpha1.ServicePolicy{Boundary: "region"}}}}, want: []string{
			"shop/only from hangzhou/hz/south shanghai/sh/south: . | beijing:1 => NODATA [lost] | beijing:1 => NODATA [lost]",
		}},
		{name: "ClusterIPs", what: []Change{{Down: []string{"tianjin"}}}, options: Options{DataPath: desired.DataPathClusterIPs}, want: []string{
			"shop/web from beijing/bj-a/north: . | beijing:4 tianjin:1 => beijing:4 [fewer] | beijing:2 tianjin:1 => beijing:2 [fewer]",
		}},
	} {
		t.Run(c.name, func(t *testing.T) { expect(t, shop(t).state(), c.options, c.what, c.want...) })
	}
}

// A Service without EndpointSlices is answered with its ClusterIP below svc.global, so losing its cluster changes answers.
func TestServiceWithoutSlices(t *testing.T) {
	s := asia(t)
	s.export("beijing", "shop/bare", "")
	s.export("tianjin", "shop/bare", "")
	one := asia(t)
	one.export("beijing", "shop/bare", "")
	if by := one.state().Exported(types.NamespacedName{Namespace: "shop", Name: "bare"}).By[0]; by.Ready != 0 || by.Endpoints != 0 {
		t.Errorf("%d of %d endpoints, want none: a ClusterIP is none", by.Ready, by.Endpoints)
	}
	expect(t, one.state(), Options{From: topology.Location{Cluster: "shanghai"}}, []Change{{Leave: []string{"beijing"}}}, "shop/bare from shanghai/sh/south: VIP => NXDOMAIN [lost] | beijing:1 => NXDOMAIN [lost] | .")
	expect(t, s.state(), Options{From: topology.Location{Cluster: "shanghai"}}, []Change{{Drain: []string{"beijing"}}}, "shop/bare from shanghai/sh/south: . | beijing:1 tianjin:1 => tianjin:1 [fewer] | .")
}

// If most clusters fall silent at once, the hub marks none of them as Expired. They still serve no clients.
func TestMostDown(t *testing.T) {
	for _, down := range [][]string{{"beijing", "tianjin", "shanghai"}, {"beijing", "tianjin", "shanghai", "hangzhou"}} {
		r, err := shop(t).state().Preview(t.Context(), []Change{{Down: down}}, Options{})
		if err != nil || len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "most are silent") || !r.Loses() == (len(down) < 4) {
			t.Errorf("%v: %+v, %v", down, r, err)
		}
	}
}

// Impossible changes fail with an error that states the reason.
func TestRefused(t *testing.T) {
	left := shop(t)
	left.member("hangzhou").SetLeft(time.Now())
	for _, c := range []struct {
		what Change
		want string
	}{
		{Change{Drain: []string{"paris"}}, "there is no cluster paris; there are beijing, shanghai, tianjin"},
		{Change{Down: []string{"hangzhou"}}, "there is no cluster hangzhou"},
		{Change{Unreachable: &Unreachable{Clusters: []string{"hangzhou"}}}, "there is no cluster hangzhou"},
		{Change{Unreachable: &Unreachable{Clusters: []string{"beijing"}, From: []string{"hangzhou"}}}, "there is no cluster hangzhou"},
		{Change{Unexport: &Export{Service: "shop/web", From: "hangzhou"}}, "shop/web isn't exported from hangzhou"},
		{Change{Unexport: &Export{Service: "shop/only", From: "tianjin"}}, "shop/only isn't exported from tianjin"},
		{Change{Unexport: &Export{Service: "shop/else", From: "beijing"}}, "there is no exported service shop/else"},
		{Change{Policy: &Policy{Service: "shop", ServicePolicy: clustersetv1alpha1.ServicePolicy{MinReady: 2}}}, `"shop" isn't a service: want NAMESPACE/NAME`},
		{Change{Policy: &Policy{Service: "shop/web", ServicePolicy: clustersetv1alpha1.ServicePolicy{Boundary: "planet"}}}, `unknown tier "planet": want cluster, zone or region`},
		{Change{Policy: &Policy{Service: "shop/web"}}, "policy: prefer, boundary, minReady and exportTo are missing"},
		{Change{Place: &Place{Cluster: "beijing"}}, "place: nothing is given: want zones, region, communities"},
		{Change{Place: &Place{Cluster: "beijing", Zones: []string{" "}}}, "place of beijing: spec.zone"},
		{Change{Export: &Export{Service: "shop/web", From: "beijing"}}, "there is no information about a Service shop/web in beijing"},
		{Change{}, "it has 0 of down, unreachable, drain"},
		{Change{Down: []string{"beijing"}, Drain: []string{"beijing"}}, "it has 2 of down, unreachable, drain"},
		{Change{Place: &Place{Cluster: "z", Communities: []string{"x"}}}, "there is no cluster z"},
		{Change{Place: &Place{Cluster: "beijing", Communities: []string{"x", "Y"}}}, `place of beijing: spec.communities[1]: Invalid value: "Y"`},
		{Change{Place: &Place{Cluster: "beijing", Network: "Edge"}}, `place of beijing: spec.network: Invalid value: "Edge"`},
		{Change{Place: &Place{Cluster: "beijing", ExternalCIDRs: []string{"192.0.2.1/24"}}}, "place of beijing: spec.externalCIDRs[0]"},
		{Change{Policy: &Policy{Service: "shop/web", ExportTo: []string{"*"}}}, "exportTo: there is no cluster or community *"},
	} {
		if _, err := left.state().Preview(t.Context(), []Change{c.what}, Options{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.what, err, c.want)
		}
	}
}

// A service of which only a conflict ends is listed without effects, and they are a list.
func TestOnlyAConflictEnds(t *testing.T) {
	s := asia(t)
	s.export("beijing", "shop/web", "")
	s.export("shanghai", "shop/web", "", "sh=1")
	s.services[0].Spec.SessionAffinity = corev1.ServiceAffinityClientIP
	r := expect(t, s.state(), Options{}, []Change{{Leave: []string{"beijing"}}}, "shop/web: conflict over sessionAffinity, beijing wins, [shanghai] differ, ends true")
	if got, err := json.Marshal(r.Services[0].Effects); err != nil || string(got) != "[]" || r.Summary.Changed != 0 {
		t.Errorf("the effects are %s, %v, and %d services change", got, err, r.Summary.Changed)
	}
}

// With Options.All, the Result has every service and place. Computing it doesn't change the State.
func TestAll(t *testing.T) {
	s := shop(t).state()
	before, err := s.Preview(t.Context(), nil, Options{All: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(before.Services) != len(s.Services()) || before.Summary.Changed > 0 {
		t.Errorf("%d services, %d of them changed", len(before.Services), before.Summary.Changed)
	}
	if _, err := s.Preview(t.Context(), []Change{{Down: []string{"beijing"}}, {Leave: []string{"tianjin"}}, {Place: &Place{Cluster: "shanghai", Region: "east"}}}, Options{}); err != nil {
		t.Fatal(err)
	}
	again, err := s.Preview(t.Context(), nil, Options{All: true})
	if err != nil {
		t.Fatal(err)
	}
	a, _ := json.Marshal(before)
	b, _ := json.Marshal(again)
	if !bytes.Equal(a, b) {
		t.Errorf("a State changed from\n%s\nto\n%s", a, b)
	}
}

func TestScreen(t *testing.T) {
	r, err := shop(t).state().Preview(t.Context(), []Change{{Down: []string{"beijing"}}, {Export: &Export{Service: "shop/else", From: "shanghai", Records: shop(t).records("shanghai", "shop/else", "None", "sh=2")}}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	const want = `
Taking beijing down, then exporting shop/else from shanghai changes 4 of 4 services: 2 become unreachable from some clusters, 1 keeps fewer endpoints, 1 comes into conflict.

EFFECT  SERVICE    FROM                                  BY                            BEFORE                           AFTER
lost    shop/db    hangzhou/hz/south, shanghai/sh/south  clusterset.local, svc.global  beijing 1                        NXDOMAIN
lost    shop/db    tianjin/bj-a/north                    clusterset.local, svc.global  beijing 1 (zone)                 NXDOMAIN
lost    shop/only  hangzhou/hz/south, shanghai/sh/south  svc.global                    beijing 1                        NODATA
lost    shop/only  hangzhou/hz/south, shanghai/sh/south  ClusterSetIP                  beijing 1                        beijing (down), last resort
lost    shop/only  tianjin/bj-a/north                    svc.global                    beijing 1 (zone)                 NODATA
lost    shop/only  tianjin/bj-a/north                    ClusterSetIP                  beijing 1 (zone)                 beijing (down), last resort
fewer   shop/web   tianjin/bj-a/north                    svc.global                    beijing 4, tianjin 1 = 5 (zone)  tianjin 1 (zone)
fewer   shop/web   tianjin/bj-a/north                    ClusterSetIP                  beijing 2, tianjin 1 = 3 (zone)  tianjin 1 (zone)
more    shop/else  shanghai/sh/south                     ClusterSetIP                  hangzhou 1 (region)              shanghai 2 (zone)
more    shop/else  tianjin/bj-a/north                    ClusterSetIP                  hangzhou 1                       hangzhou 1, shanghai 2 = 3

Conflict in shop/else: type: shanghai (1 of 2 clusters) disagrees with hangzhou, whose export is the oldest (2026-01-01T00:00:05Z); hangzhou has ClusterSetIP, shanghai has Headless
`
	if got := "\n" + (Screen{}).Render(r); got != want {
		t.Errorf("the screen is%s\nwant%s", got, want)
	}
}
