package e2e

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
)

// cell chooses a service's place at random, and returns it with its state.
func (s *script) cell() (randomCell, *randomState) {
	for {
		c := randomCell{randomPlace{s.IntN(len(s.set.clusters)), s.namespaces[s.IntN(len(s.namespaces))]}, fmt.Sprintf("svc%d", s.IntN(s.set.names))}
		if s.missing[c.randomPlace] {
			continue
		}
		if s.cells[c] == nil {
			s.cells[c] = &randomState{}
		}
		return c, s.cells[c]
	}
}

// step adds one user action. An action that makes no sense in a place is replaced by one that does.
func (s *script) step() {
	if s.set.communities != nil && s.IntN(2) == 0 {
		s.changeSight()
		return
	}
	c, state := s.cell()
	if state.kind == "" {
		s.create(c, state)
		return
	}
	switch n := s.IntN(100); {
	case n < 20:
		s.export(c, state)
	case n < 30:
		s.unexport(c)
	case n < 42:
		s.mark(c, state)
	case n < 54:
		s.change(c, state)
	case n < 62:
		s.remove(c, state)
	case n < 82:
		s.scale(c, state)
	case n < 96:
		s.conflict(c)
	default:
		s.drain()
	}
}

func (s *script) create(c randomCell, state *randomState) {
	s.newService(c, state)
	if s.IntN(10) < 8 {
		s.newSlices(c, state)
	}
	manifests := state.manifests(c)
	s.add(apply(c, manifests...), "create %s: %s", c, state)
}

func (s *script) export(c randomCell, state *randomState) {
	if state.mark != "" {
		s.scale(c, state) // it is exported already
		return
	}
	// An existing ServiceExport is removed first. It may be the exporter's own for a mark of a moment ago, and would be
	// removed with the mark.
	s.add(func(r *randomRun) error {
		if err := r.removeExport(c); err != nil {
			return err
		}
		return apply(c, exportManifest(c))(r)
	}, "export %s", c)
}

func (r *randomRun) removeExport(c randomCell) error {
	e := &mcsv1beta1.ServiceExport{}
	e.Namespace, e.Name = c.namespace, c.name
	return client.IgnoreNotFound(r.members[c.cluster].Client.Delete(context.Background(), e))
}

func (s *script) unexport(c randomCell) {
	s.add(func(r *randomRun) error { return r.removeExport(c) }, "un-export %s", c)
}

func (s *script) mark(c randomCell, state *randomState) {
	next := map[string][]string{"": {"labels", "annotations"}, "labels": {"", "annotations"}, "annotations": {"", "labels"}}[state.mark]
	state.mark = next[s.IntN(2)]
	s.add(apply(c, state.serviceManifest(c)), "mark %s: %q", c, state.mark)
}

// change gives a Service other ports, or another kind, which needs a new Service.
func (s *script) change(c randomCell, state *randomState) {
	if s.IntN(3) > 0 {
		state.ports = s.newPorts(state.kind)
		if s.IntN(3) > 0 {
			s.newSlices(c, state)
		}
		s.add(apply(c, state.manifests(c)...), "change %s: %s", c, state)
		return
	}
	s.newService(c, state)
	service := state.serviceManifest(c)
	s.add(func(r *randomRun) error {
		if err := r.members[c.cluster].Plane.DeleteContext(context.Background(), []byte(service)); err != nil {
			return err
		}
		return apply(c, service)(r)
	}, "replace %s: %s", c, state)
}

// remove deletes the Service, and often leaves its other objects.
func (s *script) remove(c randomCell, state *randomState) {
	gone := []string{state.serviceManifest(c)}
	state.kind, state.mark = "", ""
	what := "Service"
	if s.IntN(2) == 0 {
		what = "Service and EndpointSlices"
		for i := range state.slices {
			gone = append(gone, state.slices[i].manifest(c, i))
		}
		state.slices = [randomSlices]randomSlice{}
	}
	s.add(func(r *randomRun) error {
		return r.members[c.cluster].Plane.DeleteContext(context.Background(), documents(gone))
	}, "delete %s: %s", c, what)
}

func (s *script) scale(c randomCell, state *randomState) {
	i := s.IntN(randomSlices)
	state.slices[i] = s.newSlice(c, state, i)
	s.add(apply(c, state.slices[i].manifest(c, i)), "scale %s: slice %d: %s", c, i, state.slices[i].text)
}

// conflict exports the same name from two clusters with different specs.
func (s *script) conflict(c randomCell) {
	for range 2 {
		state := s.cells[c]
		if state == nil {
			state = &randomState{}
			s.cells[c] = state
		}
		if state.kind == "" {
			s.create(c, state)
		}
		s.export(c, state)
		for next := (c.cluster + 1) % len(s.set.clusters); ; next = (next + 1) % len(s.set.clusters) {
			if c.cluster = next; !s.missing[c.randomPlace] {
				break
			}
		}
	}
}

// drain turns a cluster's drain on or off.
func (s *script) drain() {
	cluster, drain := s.IntN(len(s.set.clusters)), s.IntN(2) == 0
	s.add(func(r *randomRun) error { return r.drain(cluster, drain) }, "drain cluster %d: %v", cluster, drain)
}

// apply applies manifests in a cell's cluster.
func apply(c randomCell, manifests ...string) func(*randomRun) error {
	return func(r *randomRun) error {
		return r.members[c.cluster].Plane.ApplyContext(context.Background(), documents(manifests))
	}
}
