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
	after, notes, err := s.Apply(changes...)
	if err != nil {
		return nil, err
	}
	c := comparison{before: s, after: after, options: &o}
	c.services, c.clusters = s.differences(after)
	if err := c.find(); err != nil {
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
		if len(svc.Effects)+len(svc.Conflicts) == 0 && !o.All {
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
		return cmp.Or(cmp.Compare(severity(a.Effects), severity(b.Effects)), cmp.Compare(load(b.Cells...), load(a.Cells...)), compareKeys(a.Key(), b.Key()))
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

// pair is a place before and after the changes. They differ if the cluster was moved.
type pair struct{ before, after place.Place }

// comparison compares two States.
type comparison struct {
	before, after *State
	options       *Options
	places        []pair                        // those that the options ask for
	services      map[types.NamespacedName]bool // as differences returns them
	clusters      map[string]bool
}

// find finds the places. It returns an error if the options ask for a service or a place that doesn't exist: "nothing changes" would be the answer
// to a typo.
func (c *comparison) find() error {
	for _, key := range c.options.Services {
		if _, ok := c.services[key]; !ok {
			return near.Unknown("exported service", key.String(), names(slices.SortedFunc(maps.Keys(c.services), compareKeys)))
		}
	}
	var all []string
	for _, p := range c.after.Places() {
		all = append(all, p.String())
		if !p.Matches(c.options.From) {
			continue
		}
		places := c.before.PlacesOf(p.Cluster)
		same := slices.IndexFunc(places, func(was place.Place) bool { return was.Zone == p.Zone })
		c.places = append(c.places, pair{places[max(same, 0)], p})
	}
	if from := place.Place(c.options.From); len(c.places) == 0 && len(all) > 0 {
		return near.Unknown("place", from.String(), all)
	}
	return nil
}

// service compares one service.
func (c *comparison) service(key types.NamespacedName) *Service {
	before := c.before.look(key, c.options)
	after := before
	svc := &Service{Namespace: key.Namespace, Name: key.Name, Effects: []Effect{}} // in JSON a list, even if only a conflict ends
	if c.services[key] || len(c.clusters) > 0 {
		after = c.after.look(key, c.options)
	}
	if c.services[key] {
		svc.conflict(c.before.views.Conflicts(c.before.exports(key)), c.after.views.Conflicts(c.after.exports(key)))
	}
	for _, p := range c.places {
		if c.options.All || c.services[key] || c.clusters[p.after.Cluster] {
			svc.add(p.after, before.at(p.before), after.at(p.after))
		}
	}
	if !c.options.All {
		svc.Cells = slices.DeleteFunc(svc.Cells, func(cell Cell) bool { return len(cell.Effects.All()) == 0 })
	}
	for i := range svc.Cells {
		svc.Effects = united(svc.Effects, svc.Cells[i].Effects.All())
	}
	slices.SortStableFunc(svc.Cells, func(a, b Cell) int {
		return cmp.Or(cmp.Compare(severity(a.Effects.All()), severity(b.Effects.All())), cmp.Compare(load(b), load(a)))
	})
	return svc
}

// add adds a place with its Answers, to the cell of places with the same if there is one.
func (s *Service) add(p place.Place, was, is *Answers) {
	at := slices.IndexFunc(s.Cells, func(c Cell) bool { return c.Before == was && c.After == is })
	if at < 0 {
		effects := Effects{effects(&was.DNS, &is.DNS), effects(&was.Global, &is.Global), effects(was.ClusterSetIP, is.ClusterSetIP)}
		at = slices.IndexFunc(s.Cells, func(c Cell) bool {
			return c.Before.same(was) && c.After.same(is) && slices.Equal(c.Effects.All(), effects.All())
		})
		if at < 0 {
			at, s.Cells = len(s.Cells), append(s.Cells, Cell{Before: was, After: is, Effects: effects})
		}
	}
	s.Cells[at].Places = append(s.Cells[at].Places, p)
}

func (a *Answers) same(b *Answers) bool {
	return a.DNS.same(&b.DNS) && a.Global.same(&b.Global) && a.ClusterSetIP.same(b.ClusterSetIP)
}

// conflict records the conflicts that arise and those that end.
func (s *Service) conflict(before, after []merge.Conflict) {
	for _, c := range others(after, before) {
		s.Conflicts, s.Effects = append(s.Conflicts, ConflictOf(&c)), []Effect{Conflicting}
	}
	for _, c := range others(before, after) {
		ended := ConflictOf(&c)
		ended.Ends = true
		s.Conflicts = append(s.Conflicts, ended)
	}
}

// others returns the conflicts that aren't among the known ones.
func others(all, known []merge.Conflict) []merge.Conflict {
	return slices.DeleteFunc(slices.Clone(all), func(c merge.Conflict) bool {
		return slices.ContainsFunc(known, func(k merge.Conflict) bool { return k.Key() == c.Key() })
	})
}

// load returns the largest factor by which the load of a ready endpoint grows.
func load(cells ...Cell) (most float64) {
	for i := range cells {
		for _, w := range cells[i].ways() {
			if w.before.serves() && w.after.serves() && w.after.Ready > 0 {
				most = max(most, float64(w.before.Ready)/float64(w.after.Ready))
			}
		}
	}
	return most
}
