package preview

import (
	"cmp"
	"context"
	"maps"
	"reflect"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/place"
	"github.com/clusterset/clusterset/internal/merge"
	"github.com/clusterset/clusterset/internal/near"
)

// Preview returns the effects of the changes, applied in order. It returns the context's error if that is done before.
func (s *State) Preview(ctx context.Context, changes []Change, o Options) (*Result, error) {
	a, notes, err := s.Apply(changes...)
	if err != nil {
		return nil, err
	}
	c := comparison{before: s, after: a, options: &o}
	c.services, c.clusters = s.differences(a)
	for _, p := range a.Places() {
		c.places = append(c.places, pair{s.placeBefore(p), p})
	}
	if err := c.known(); err != nil {
		return nil, err
	}
	r := &Result{Summary: Summary{Effects: map[Effect]int{}}, Services: []Service{}, Notes: notes}
	var all []types.NamespacedName
	for key, differs := range c.services {
		if len(o.Services) > 0 && !slices.Contains(o.Services, key) {
			continue
		}
		r.Summary.Services++
		if o.All || differs || len(c.clusters) > 0 {
			all = append(all, key)
		}
	}
	services := make([]*Service, len(all))
	var workers errgroup.Group
	workers.SetLimit(runtime.GOMAXPROCS(0))
	for i, key := range all {
		workers.Go(func() error {
			if ctx.Err() == nil {
				services[i] = c.service(key)
			}
			return ctx.Err()
		})
	}
	if err := workers.Wait(); err != nil {
		return nil, err
	}
	for _, svc := range services {
		if svc == nil {
			continue
		}
		r.Services = append(r.Services, *svc)
		if len(svc.Effects) > 0 {
			r.Summary.Changed++
		}
		for _, e := range svc.Effects {
			r.Summary.Effects[e]++
		}
	}
	slices.SortFunc(r.Services, func(a, b Service) int {
		return cmp.Or(cmp.Compare(a.severity(), b.severity()), cmp.Compare(b.load(), a.load()), compareKeys(a.Key(), b.Key()))
	})
	r.Summary.say(changes)
	return r, nil
}

// differences returns all services of two States, true if their answers may differ in any place, and the clusters in which all may differ. A change of
// a MemberCluster, or of who can reach it, replaces it, and so touches what it exports (SameExported).
func (s *State) differences(after *State) (services map[types.NamespacedName]bool, clusters map[string]bool) {
	services, clusters = map[types.NamespacedName]bool{}, map[string]bool{}
	// An external address may lie in the networks of a cluster that is now in the same network.
	inside := !reflect.DeepEqual(s.inside, after.inside)
	for _, state := range []*State{s, after} {
		for key, r := range state.services {
			external := func(e *clustersetv1alpha1.ExportedEndpoints) bool { return inside && e.Spec.External }
			services[key] = services[key] || !s.SameExported(after, key) || slices.ContainsFunc(r.endpoints, external)
		}
	}
	for name, m := range after.usable {
		if where(s.usable[name]) != where(m) {
			clusters[name] = true
		}
	}
	return services, clusters
}

// known returns an error if the options ask for a service or a place that doesn't exist: "nothing changes" would be the answer to a typo.
func (c *comparison) known() error {
	for _, key := range c.options.Services {
		if _, ok := c.services[key]; !ok {
			return near.Unknown("exported service", key.String(), names(slices.SortedFunc(maps.Keys(c.services), compareKeys)))
		}
	}
	var all []string
	for _, p := range c.places {
		if p.after.Matches(c.options.From) {
			return nil
		}
		all = append(all, p.after.String())
	}
	if from := place.Place(c.options.From); len(all) > 0 {
		return near.Unknown("place", from.String(), all)
	}
	return nil
}

// pair is a place before and after the changes. They differ if the cluster was moved.
type pair struct{ before, after place.Place }

// placeBefore returns the place that became p when its cluster was moved.
func (s *State) placeBefore(p place.Place) place.Place {
	all := s.PlacesOf(p.Cluster)
	for _, was := range all {
		if was.Zone == p.Zone {
			return was
		}
	}
	return all[0]
}

// comparison compares two States.
type comparison struct {
	before, after *State
	options       *Options
	places        []pair
	services      map[types.NamespacedName]bool // as differences returns them
	clusters      map[string]bool
}

// service compares one service. It returns nil if there is nothing to report.
func (c *comparison) service(key types.NamespacedName) *Service {
	before := c.before.look(key, c.options)
	after := before
	if c.services[key] || len(c.clusters) > 0 {
		after = c.after.look(key, c.options)
	}
	svc := &Service{Namespace: key.Namespace, Name: key.Name}
	cells := map[[2]*Answers]int{}
	conflicts := [2]map[string]*merge.Conflict{{}, {}}
	for _, p := range c.places {
		if !p.after.Matches(c.options.From) {
			continue
		}
		if !c.options.All && !c.services[key] && !c.clusters[p.after.Cluster] {
			continue
		}
		for i, l := range []*seen{before.from(p.before.Cluster), after.from(p.after.Cluster)} {
			for j := range l.resolved.Conflicts {
				conflict := &l.resolved.Conflicts[j]
				conflicts[i][conflict.Key()] = conflict
			}
		}
		was, is := before.at(p.before), after.at(p.after)
		if i, known := cells[[2]*Answers{was, is}]; known {
			if i >= 0 {
				svc.Cells[i].Places = append(svc.Cells[i].Places, p.after)
			}
			continue
		}
		effects := Effects{effects(&was.DNS, &is.DNS), effects(&was.Global, &is.Global), effects(was.ClusterSetIP, is.ClusterSetIP)}
		if len(effects.All()) == 0 && !c.options.All {
			cells[[2]*Answers{was, is}] = -1
			continue
		}
		i := svc.cell(was, is, effects)
		cells[[2]*Answers{was, is}] = i
		svc.Cells[i].Places = append(svc.Cells[i].Places, p.after)
	}
	for i := range svc.Cells {
		svc.Effects = united(svc.Effects, svc.Cells[i].Effects.All())
	}
	slices.SortStableFunc(svc.Cells, func(a, b Cell) int {
		return cmp.Or(cmp.Compare(a.severity(), b.severity()), cmp.Compare(b.load(), a.load()))
	})
	svc.conflict(conflicts[0], conflicts[1])
	if svc.Effects == nil {
		svc.Effects = []Effect{} // in JSON a list, even if only a conflict ends
	}
	if len(svc.Effects)+len(svc.Conflicts) == 0 && !c.options.All {
		return nil
	}
	return svc
}

// cell returns the index of the cell with these Answers, and adds one if there is none.
func (s *Service) cell(was, is *Answers, effects Effects) int {
	for i := range s.Cells {
		if c := &s.Cells[i]; c.Before.same(was) && c.After.same(is) && slices.Equal(c.Effects.All(), effects.All()) {
			return i
		}
	}
	s.Cells = append(s.Cells, Cell{Before: was, After: is, Effects: effects})
	return len(s.Cells) - 1
}

func (a *Answers) same(b *Answers) bool {
	return a.DNS.same(&b.DNS) && a.Global.same(&b.Global) && a.ClusterSetIP.same(b.ClusterSetIP)
}

// conflict records the conflicts that arise and those that end.
func (s *Service) conflict(before, after map[string]*merge.Conflict) {
	for _, key := range slices.Sorted(maps.Keys(after)) {
		if before[key] == nil {
			s.Conflicts = append(s.Conflicts, ConflictOf(after[key]))
			s.Effects = united(s.Effects, []Effect{Conflicting})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(before)) {
		if after[key] == nil {
			ended := ConflictOf(before[key])
			ended.Ends = true
			s.Conflicts = append(s.Conflicts, ended)
		}
	}
}

func (s *Service) severity() int { return severity(s.Effects) }
func (c *Cell) severity() int    { return severity(c.Effects.All()) }

func severity(effects []Effect) int {
	if len(effects) == 0 {
		return len(worst)
	}
	return effects[0].severity()
}

// load returns the largest factor by which the load of a ready endpoint grows.
func (s *Service) load() (most float64) {
	for i := range s.Cells {
		most = max(most, s.Cells[i].load())
	}
	return most
}

func (c *Cell) load() (most float64) {
	for _, a := range [][2]*Answer{{&c.Before.DNS, &c.After.DNS}, {&c.Before.Global, &c.After.Global}, {c.Before.ClusterSetIP, c.After.ClusterSetIP}} {
		if a[0].serves() && a[1].serves() && a[1].Ready > 0 {
			most = max(most, float64(a[0].Ready)/float64(a[1].Ready))
		}
	}
	return most
}
