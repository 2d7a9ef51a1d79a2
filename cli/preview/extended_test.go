package preview

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
)

// An extended Service fails over to what its ClusterSetIP would lead to without the own endpoints. Rules D60, D64 and D66 of
// docs/spec/data-path.md.
func TestExtended(t *testing.T) {
	web, only, db := types.NamespacedName{Namespace: "shop", Name: "web"}, types.NamespacedName{Namespace: "shop", Name: "only"}, types.NamespacedName{Namespace: "shop", Name: "db"}
	for _, c := range []struct {
		name  string
		of    types.NamespacedName
		what  Change
		path  desired.DataPath
		loses bool
		want  []string
	}{
		{name: "the nearest is down", of: web, what: Change{Down: []string{"tianjin"}}, want: []string{
			"beijing: tianjin:1 => shanghai:3 [leaves-region more]",
			"shanghai: beijing:4 tianjin:1 => beijing:4 [fewer]",
		}},
		{name: "the nearest can't be reached", of: web, what: Change{Unreachable: &Unreachable{Clusters: []string{"tianjin"}, From: []string{"beijing"}}}, want: []string{
			"beijing: tianjin:1 => shanghai:3 [leaves-region more]",
		}},
		{name: "all others can't be reached", of: web, what: Change{Unreachable: &Unreachable{Clusters: []string{"tianjin", "shanghai"}, From: []string{"beijing"}}}, want: []string{
			"beijing: tianjin:1 => tianjin:1 degraded [last-resort]",
		}},
		// beijing's own endpoints are ready, so no name of it is lost.
		{name: "all others leave", of: web, what: Change{Leave: []string{"tianjin", "shanghai"}}, want: []string{
			"beijing: tianjin:1 => - [no-failover]",
			"hangzhou: shanghai:3 => beijing:4 [leaves-region more]",
		}},
		{name: "it is exported no longer", of: only, what: Change{Unexport: &Export{Service: "shop/only", From: "beijing"}}, loses: true, want: []string{
			"hangzhou: beijing:1 => - [no-failover]",
			"shanghai: beijing:1 => - [no-failover]",
			"tianjin: beijing:1 => - [no-failover]",
		}},
		{name: "a second one exports it", of: only, what: Change{Export: &Export{Service: "shop/only", From: "tianjin"}}, want: []string{
			"beijing: - => tianjin:2 [more]",
			"hangzhou: beijing:1 => beijing:1 tianjin:2 [more]",
			"shanghai: beijing:1 => beijing:1 tianjin:2 [more]",
			"tianjin: beijing:1 => beijing:1 []",
		}},
		{name: "behind ClusterIPs", of: web, path: desired.DataPathClusterIPs, what: Change{Down: []string{"tianjin"}}, want: []string{
			"beijing: tianjin:1 => shanghai:3 [leaves-region more]",
			"shanghai: beijing:4 tianjin:1 => beijing:4 [fewer]",
		}},
		{name: "other clusters' ClusterIPs could lead back", of: web, path: desired.DataPathClusterIPs, what: Change{Drain: []string{"tianjin"}}, want: []string{
			"beijing: tianjin:1 => shanghai:3 [leaves-region more]",
			"shanghai: beijing:4 tianjin:1 => beijing:4 [fewer]",
			"tianjin: beijing:4 => beijing:4 []",
		}},
		{name: "with endpoints of all", of: web, what: Change{Policy: &Policy{Service: "shop/web", ServicePolicy: clustersetv1alpha1.ServicePolicy{Prefer: "none"}}}, want: []string{
			"beijing: tianjin:1 => shanghai:3 tianjin:1 [leaves-region more]",
			"hangzhou: shanghai:3 => beijing:4 shanghai:3 tianjin:1 [leaves-region more]",
			"shanghai: beijing:4 tianjin:1 => beijing:4 tianjin:1 []",
			"tianjin: beijing:2 => beijing:4 shanghai:3 [leaves-region more]",
		}},
		{name: "a headless one has no such endpoints", of: db, what: Change{Down: []string{"beijing"}}, loses: true},
	} {
		s := shop(t)
		if c.what.Export != nil {
			c.what.Export.Records = s.records("tianjin", "shop/only", "", "bj-a=2")
		}
		r, err := s.state().Preview(t.Context(), []Change{c.what}, Options{Services: []types.NamespacedName{c.of}, Extended: []types.NamespacedName{c.of}, DataPath: c.path})
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for _, svc := range r.Services {
			for _, cell := range svc.Cells {
				for _, p := range cell.Places {
					if cell.Before.Own != nil || cell.After.Own != nil {
						seen[fmt.Sprintf("%s: %s => %s %v", p.Cluster, text(cell.Before.Own), text(cell.After.Own), cell.Effects.Own)] = true
					}
				}
			}
		}
		var got []string
		for line := range seen {
			got = append(got, line)
		}
		slices.Sort(got)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
		}
		if r.Loses() != c.loses {
			t.Errorf("%s: loses names: %v", c.name, r.Loses())
		}
	}
}

func TestExtendedServicesMustBeExported(t *testing.T) {
	_, err := shop(t).state().Preview(t.Context(), []Change{{Drain: []string{"beijing"}}}, Options{Extended: []types.NamespacedName{{Namespace: "shop", Name: "wen"}}})
	if err == nil || !strings.Contains(err.Error(), "no exported service shop/wen") {
		t.Error(err)
	}
}
