package preview

import (
	"cmp"
	"context"
	"maps"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterset/clusterset/cli/place"
	"github.com/clusterset/clusterset/internal/merge"
	"github.com/clusterset/clusterset/internal/near"
	"github.com/clusterset/clusterset/internal/topology"
)

// Preview returns the effects of the changes, applied in order. It returns the context's error if that is done before.
func (s *State) Preview(ctx context.Context, changes []Change, o Options) (*Result, error) {
	a, err := s.apply(changes)
	if err != nil {
		return nil, err
	}
	c := comparison{before: s, after: a, options: &o}
	for _, p := range a.Places() {
		c.places = append(c.places, pair{s.placeBefore(p), p})
	}
	keys := map[types.NamespacedName]bool{}
	maps.Copy(keys, a.touched)
	for key := range s.services {
		keys[key] = true
	}
	if err := o.known(keys, c.places); err != nil {
		return nil, err
	}
	r := &Result{Summary: Summary{Effects: map[Effect]int{}}, Services: []Service{}, Notes: a.notes}
	var all []types.NamespacedName
	for key := range keys {
		if len(o.Services) > 0 && !slices.Contains(o.Services, key) {
			continue
		}
		r.Summary.Services++
		if o.All || a.touched[key] || len(a.moved) > 0 {
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

// known returns an error if the options ask for a service or a place that doesn't exist: "nothing changes" would be the answer to a typo.
// services are those that clusters export before the changes, and those that the changes name.
func (o *Options) known(services map[types.NamespacedName]bool, places []pair) error {
	for _, key := range slices.Concat(o.Services, o.Extended) {
		if !services[key] {
			var all []string
			for _, k := range slices.SortedFunc(maps.Keys(services), compareKeys) {
				all = append(all, k.String())
			}
			return near.Unknown("exported service", key.String(), all)
		}
	}
	var clusters, all []string
	for _, p := range places {
		if p.after.Matches(o.From) {
			return nil
		}
		clusters, all = append(clusters, p.after.Cluster), append(all, p.after.String())
	}
	if len(places) == 0 || o.From == (topology.Location{}) {
		return nil
	}
	if clusters = slices.Compact(clusters); o.From.Cluster != "" && !slices.Contains(clusters, o.From.Cluster) {
		return near.Unknown("cluster with clients", o.From.Cluster, clusters)
	}
	return near.Unknown("place", place.Place(o.From).String(), all)
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
	before  *State
	after   *after
	options *Options
	places  []pair
}

// service compares one service. It returns nil if there is nothing to report.
func (c *comparison) service(key types.NamespacedName) *Service {
	before := c.before.look(key, c.options)
	after := before
	if c.after.touched[key] || len(c.after.moved) > 0 {
		after = c.after.look(key, c.options)
	}
	svc := &Service{Namespace: key.Namespace, Name: key.Name}
	cells := map[[2]*Answers]int{}
	conflicts := [2]map[string]*merge.Conflict{{}, {}}
	for _, p := range c.places {
		if !p.after.Matches(c.options.From) {
			continue
		}
		if !c.options.All && !c.after.touched[key] && !c.after.moved[p.after.Cluster] {
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
		effects := Effects{effects(&was.DNS, &is.DNS), effects(&was.Global, &is.Global), effects(was.ClusterSetIP, is.ClusterSetIP), ownEffects(was.Own, is.Own)}
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
	same := func(a, b *Answer) bool { return (a == nil) == (b == nil) && (a == nil || a.same(b)) }
	return a.DNS.same(&b.DNS) && a.Global.same(&b.Global) && same(a.ClusterSetIP, b.ClusterSetIP) && same(a.Own, b.Own)
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
