package console

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterset/clusterset/cli/preview"
	"github.com/clusterset/clusterset/cli/view"
)

// service answers /api/service.
func (s *Server) service(ctx context.Context, q query) (any, error) {
	key, err := preview.ParseService(q.Get("service"))
	if err != nil {
		return nil, badRequest("service: %w", err)
	}
	from, err := q.place("from")
	if err != nil {
		return nil, err
	}
	is, err := s.asked(ctx, q)
	if err != nil {
		return nil, err
	}
	was, then := is.set.state.Exported(key), is.after.Exported(key)
	if was == nil && then == nil {
		return nil, problem{http.StatusNotFound, fmt.Errorf("no cluster exports %s", key)}
	}
	o := s.options.Preview
	o.Services, o.From, o.All = []types.NamespacedName{key}, from, true
	result, err := is.set.state.Preview(ctx, is.list, o)
	if err != nil {
		return nil, badRequest("%w", err)
	}
	out := &Service{
		Item: item(was), Columns: columns(is.set.state, was, is.after, then), Rows: []Row{}, Effects: []preview.Effect{},
		Conflicts: []Conflict{}, Notes: is.notes, Changes: is.words, Problems: problemsOf(is.sources, key),
	}
	if len(is.list) > 0 {
		out.ItemAfter = item(then)
	}
	if is.set.state.Networks(is.list...) {
		out.Networks = networks(is.set.state)
		if now := networks(is.after); !maps.Equal(now, out.Networks) {
			out.NetworksAfter = now
		}
	}
	for i := range result.Services {
		svc := &result.Services[i]
		out.Effects = append(out.Effects, svc.Effects...)
		out.conflicts(was, svc.Conflicts)
		for j := range svc.Cells {
			cell := &svc.Cells[j]
			row := Row{Places: cell.Places, Before: cell.Before}
			if all := cell.Effects.All(); len(all) > 0 {
				row.After, row.Effects = cell.After, &cell.Effects
			}
			out.Rows = append(out.Rows, row)
		}
	}
	out.Access = s.access(is.sources, key, out.Rows)
	return out, nil
}

// conflicts lists the conflicts that exist, and those that the changes begin or end.
func (s *Service) conflicts(was *preview.Exported, changed []preview.Conflict) {
	if was != nil {
		for i := range was.Conflicts {
			c := Conflict{Conflict: preview.ConflictOf(&was.Conflicts[i])}
			c.Ends = slices.ContainsFunc(changed, func(o preview.Conflict) bool {
				return o.Ends && o.Reason == c.Reason && o.Winner == c.Winner && slices.Equal(o.Clusters, c.Clusters)
			})
			s.Conflicts = append(s.Conflicts, c)
		}
	}
	for _, c := range changed {
		if !c.Ends {
			s.Conflicts = append(s.Conflicts, Conflict{Conflict: c, Begins: true})
		}
	}
}

func networks(state *preview.State) map[string]string {
	all := map[string]string{}
	for _, name := range state.Clusters() {
		all[name] = state.Member(name).Spec.Network
	}
	return all
}

// columns returns the clusters that export a service before or after.
func columns(before *preview.State, was *preview.Exported, after *preview.State, then *preview.Exported) []Column {
	all := columnsOf(before, was)
	if before == after {
		return all
	}
	for i := range all {
		all[i].Leaves = true
	}
	for _, c := range columnsOf(after, then) {
		at := slices.IndexFunc(all, func(b Column) bool { return b.Name == c.Name })
		if at < 0 {
			c.Joins = true
			all = append(all, c)
			continue
		}
		all[at].Leaves = false
		if !reflect.DeepEqual(all[at], c) {
			all[at].After = &c
		}
	}
	slices.SortFunc(all, func(a, b Column) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

func columnsOf(state *preview.State, e *preview.Exported) (all []Column) {
	i := item(e)
	if i == nil {
		return nil
	}
	unseen := state.Unseen(types.NamespacedName{Namespace: e.Namespace, Name: e.Name})
	for n, by := range e.By {
		c := Column{
			Exporter: i.Clusters[n], Winner: by.Cluster == e.Winner, ExportedAt: &by.ExportedAt, ClusterIPs: by.ClusterIPs, Phase: "Unknown", Down: state.Down(by.Cluster),
			ExportTo: by.ExportTo,
		}
		for _, u := range unseen[by.Cluster] {
			c.Unseen = append(c.Unseen, Unseen{Why: u.Why.Words("{exporter}", "{viewer}"), From: u.From})
		}
		if m := state.Member(by.Cluster); m != nil {
			at := view.OnHub(m, m.CreationTimestamp.Time, 0, m.CreationTimestamp.Time)
			c.Phase, c.Drain, c.Zones, c.Region = at.Phase, at.Drain, at.Zones, at.Region
		}
		all = append(all, c)
	}
	return all
}

// problemsOf returns what members say of the service.
func problemsOf(sources []*Source, key types.NamespacedName) (all []Problem) {
	for _, from := range sources {
		if r := from.Report; r != nil {
			for _, p := range slices.Concat(r.Services.Problems, r.Services.LastResort, r.Services.Conflicts) {
				if p.Namespace == key.Namespace && p.Name == key.Name {
					all = append(all, Problem{Context: from.Context, Cluster: from.Cluster, Problem: p})
				}
			}
		}
	}
	return all
}
