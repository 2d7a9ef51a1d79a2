package merge_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/door"
	"github.com/clusterset/clusterset/internal/merge"
)

// Views must agree with the results of Visible and Resolve for each member.
func TestViews(t *testing.T) {
	members := map[string]*clustersetv1alpha1.MemberCluster{}
	for name, in := range map[string][]string{"a": {"x"}, "b": {"x", "y"}, "c": {"y"}, "d": {"y", "x"}, "e": nil, "f": {"default"}} {
		members[name] = &clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: clustersetv1alpha1.MemberClusterSpec{Communities: in}}
	}
	gone := members["a"].DeepCopy()
	gone.SetLeft(time.Unix(1, 0))
	members["gone"] = gone
	for _, c := range []struct {
		name string
		to   map[string][]string // the exporters, and whom they export to
		want string
	}{
		{"to all", map[string][]string{"a": nil, "c": nil}, "a: a; b,d: a c; c: c"},
		{"to some", map[string][]string{"a": {"b"}, "c": nil}, "a: a; b: a c; c,d: c"},
		{"to nobody else", map[string][]string{"a": {"a"}, "c": {"c"}}, "a: a; c: c"},
		{"of one that the hub lost", map[string][]string{"lost": nil, "e": nil}, "a,b,c,d: lost; e,f: e lost"},
	} {
		var exports []merge.Export
		for _, name := range slices.Sorted(maps.Keys(c.to)) {
			exports = append(exports, merge.Export{Export: &door.Export{Cluster: name, Spec: &clustersetv1alpha1.ExportedServiceSpec{
				ExportTo: c.to[name], Ports: []clustersetv1alpha1.ServicePort{{Name: name, Port: 80}},
			}}})
		}
		views := merge.NewViews(members)
		var got []string
		for _, v := range views.Of(exports) {
			var seen []string
			for _, e := range v.Exports {
				seen = append(seen, e.Cluster)
			}
			got = append(got, strings.Join(v.By, ",")+": "+strings.Join(seen, " "))
		}
		slices.Sort(got)
		if text := strings.Join(got, "; "); text != c.want {
			t.Errorf("%s: %s, want %s", c.name, text, c.want)
		}
		// Conflicts names exactly the members whose own merge has a conflict.
		conflicting := map[string]bool{}
		for _, conflict := range views.Conflicts(exports) {
			for _, by := range conflict.By {
				conflicting[by] = true
			}
			if conflict.By == nil || !strings.Contains(conflict.String(), "only these clusters see both: "+strings.Join(conflict.By, ", ")) {
				t.Errorf("%s: seen by %v: %s", c.name, conflict.By, conflict)
			}
		}
		for name := range members {
			visible := merge.Visible(name, func(cluster string) *clustersetv1alpha1.MemberCluster { return members[cluster] })
			own := slices.DeleteFunc(slices.Clone(exports), func(e merge.Export) bool { return !visible(e.Cluster, e.Spec.ExportTo) })
			if has := len(merge.Resolve(own).Conflicts) > 0; name != "gone" && has != conflicting[name] {
				t.Errorf("%s: %s merges with a conflict: %v, by Conflicts: %v", c.name, name, has, conflicting[name])
			}
		}
	}
}

// Without communities there is a single view, whatever the number of members, and all members see a conflict.
func TestOneView(t *testing.T) {
	members := map[string]*clustersetv1alpha1.MemberCluster{}
	var exports []merge.Export
	for i := range 20 {
		name := fmt.Sprintf("c%02d", i)
		members[name] = &clustersetv1alpha1.MemberCluster{}
		exports = append(exports, merge.Export{Export: &door.Export{Cluster: name, Spec: &clustersetv1alpha1.ExportedServiceSpec{Ports: []clustersetv1alpha1.ServicePort{{Port: int32(80 + i%2)}}}}})
	}
	views := merge.NewViews(members)
	if all := views.Of(exports); len(all) != 1 || all[0].By != nil || len(all[0].Exports) != 20 {
		t.Errorf("%d views", len(all))
	}
	if all := views.Conflicts(exports); len(all) != 1 || all[0].By != nil {
		t.Errorf("conflicts %+v", all)
	}
}

func TestConflictsAreSeenBySome(t *testing.T) {
	members := map[string]*clustersetv1alpha1.MemberCluster{}
	for name, in := range map[string][]string{"a": {"x"}, "b": {"x", "y"}, "c": {"y"}} {
		members[name] = &clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: clustersetv1alpha1.MemberClusterSpec{Communities: in}}
	}
	views := merge.NewViews(members)
	toAB := func(s *clustersetv1alpha1.ExportedServiceSpec) { s.ExportTo = []string{"a", "b"} }
	for _, c := range []struct {
		name    string
		records []*clustersetv1alpha1.ExportedService
		want    string
	}{
		{"no exports", nil, ""},
		{"two conflicts, in all views", []*clustersetv1alpha1.ExportedService{
			record("a", 1, labels("tier", "1"), ports("http:80")), record("b", 3, labels("tier", "2"), ports("http:81")), record("c", 2, labels("tier", "1"), ports("http:80")),
		}, "LabelsConflict of b with a: a b, LabelsConflict of b with c: c, PortConflict of b with a: a b, PortConflict of b with c: c"},
		{"a single view that not all have", []*clustersetv1alpha1.ExportedService{
			record("a", 1, ports("http:80"), toAB), record("b", 2, ports("http:81"), toAB),
		}, "PortConflict of b with a: a b"},
	} {
		exports, _ := merge.Exports(compact(c.records...), nil)
		var got []string
		for _, o := range views.Conflicts(exports) {
			got = append(got, fmt.Sprintf("%s of %s with %s: %s", o.Reason, strings.Join(o.Clusters, " "), o.Winner, strings.Join(o.By, " ")))
		}
		slices.Sort(got)
		if text := strings.Join(got, ", "); text != c.want {
			t.Errorf("%s: %s, want %s", c.name, text, c.want)
		}
	}
	all := merge.NewViews(map[string]*clustersetv1alpha1.MemberCluster{"a": {}, "b": {}})
	open := []*clustersetv1alpha1.ExportedService{record("a", 1), record("b", 1)}
	if !all.Alike(open) || all.Alike(append(open, record("c", 1, toAB))) || views.Alike(open) {
		t.Error("members see alike only without communities, and what is exported to all")
	}
}
