package merge

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

// Views says which members of a set see the same exports, by the rule of Sees. It is for those who look at the whole set: an importer
// has one view, its own.
type Views struct {
	members map[string]*clustersetv1alpha1.MemberCluster
	// groups are the members with the same communities, which see alike what is exported to all. alone are the members one by one.
	groups, alone [][]string
}

// View is what some members see of a service.
type View struct {
	// By are these members, sorted. Nil means all members, or that they are unknown.
	By      []string
	Exports []Export
}

// NewViews returns the Views of a set's members, by their names. Members that have left see nothing.
func NewViews(members map[string]*clustersetv1alpha1.MemberCluster) *Views {
	v := &Views{members: members}
	group := map[string]int{}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if members[name].Left() {
			continue
		}
		in := strings.Join(slices.Sorted(slices.Values(members[name].Spec.Communities)), ",")
		i, known := group[in]
		if !known {
			i = len(v.groups)
			group[in], v.groups = i, append(v.groups, nil)
		}
		v.groups[i] = append(v.groups[i], name)
		v.alone = append(v.alone, []string{name})
	}
	return v
}

// Alike reports whether all members see all of these records of a service.
func (v *Views) Alike(records []*clustersetv1alpha1.ExportedService) bool {
	return len(v.groups) <= 1 && !slices.ContainsFunc(records, func(r *clustersetv1alpha1.ExportedService) bool { return len(r.Spec.ExportTo) > 0 })
}

// Equal reports whether the members of both see the same of any exports.
func (v *Views) Equal(o *Views) bool {
	return slices.EqualFunc(v.groups, o.groups, slices.Equal) && !slices.ContainsFunc(v.groups, func(names []string) bool {
		return !slices.Equal(v.members[names[0]].Spec.Communities, o.members[names[0]].Spec.Communities)
	})
}

// Of returns the views of a service's exports, one for all members that see the same. Who sees none of them isn't listed.
func (v *Views) Of(exports []Export) []View {
	groups, toSome := v.groups, slices.ContainsFunc(exports, func(e Export) bool { return len(e.Spec.ExportTo) > 0 })
	if toSome {
		groups = v.alone
	}
	if len(groups) == 0 || len(groups) == 1 && !toSome {
		return []View{{Exports: exports}}
	}
	member := func(cluster string) *clustersetv1alpha1.MemberCluster { return v.members[cluster] }
	var all []View
	known := map[string]int{}
	for _, names := range groups {
		visible := Visible(names[0], member)
		seen := make([]Export, 0, len(exports))
		key := make([]byte, len(exports))
		for i, e := range exports {
			if visible(e.Cluster, e.Spec.ExportTo) {
				seen, key[i] = append(seen, e), 1
			}
		}
		at, there := known[string(key)]
		switch {
		case len(seen) == 0:
		case there:
			all[at].By = append(all[at].By, names...)
		default:
			known[string(key)] = len(all)
			all = append(all, View{slices.Clone(names), seen})
		}
	}
	for i := range all {
		slices.Sort(all[i].By)
	}
	return all
}

// Conflicts returns the conflicts that any member sees among a service's exports, sorted by reason. By are those that see it.
func (v *Views) Conflicts(exports []Export) []Conflict {
	views := v.Of(exports)
	if len(views) == 1 && views[0].By == nil {
		return Resolve(exports).Conflicts
	}
	var all []Conflict
	for _, view := range views {
		for _, c := range Resolve(view.Exports).Conflicts {
			at := slices.IndexFunc(all, func(o Conflict) bool { return o.Key() == c.Key() })
			if at < 0 {
				at, all = len(all), append(all, c)
			}
			all[at].By = append(all[at].By, view.By...)
		}
	}
	for i := range all {
		slices.Sort(all[i].By)
		if len(all[i].By) == len(v.alone) {
			all[i].By = nil
		}
	}
	slices.SortStableFunc(all, func(a, b Conflict) int { return cmp.Compare(a.Reason, b.Reason) })
	return all
}
