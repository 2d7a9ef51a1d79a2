package random

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/test/fleettest"
)

// cell returns a random service in a random cluster, with its state.
func (s *Script) cell() (cell, *serviceState) {
	for {
		c := cell{place{s.IntN(len(s.set.clusters)), s.Namespaces[s.IntN(len(s.Namespaces))]}, fmt.Sprintf("svc%d", s.IntN(s.set.names))}
		if s.missing[c.place] {
			continue
		}
		if s.cells[c] == nil {
			s.cells[c] = &serviceState{}
		}
		return c, s.cells[c]
	}
}

// step adds one user action. An action that makes no sense for the service is replaced by one that does.
func (s *Script) step() {
	if s.set.communities != nil && s.IntN(2) == 0 {
		s.changeSight()
		return
	}
	if s.set.networks != nil && s.IntN(6) == 0 {
		s.changeNetwork()
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
	case n < 88:
		s.extend(c, state)
	case n < 94:
		s.conflict(c)
	case n < 97 && s.set.reach:
		s.reach()
	default:
		s.drain()
	}
}

func (s *Script) create(c cell, state *serviceState) {
	s.newService(c, state)
	if s.IntN(10) < 8 {
		s.newSlices(c, state)
	}
	manifests := state.manifests(c)
	s.add(apply(c, manifests...), "create %s: %s", c, state)
}

func (s *Script) export(c cell, state *serviceState) {
	if state.mark != "" {
		s.scale(c, state) // it is already exported
		return
	}
	// Remove an existing ServiceExport first. It may be one that the exporter created for a recent mark, and would be
	// deleted with the mark.
	s.add(func(r *Run) error {
		if err := r.removeExport(c); err != nil {
			return err
		}
		return apply(c, exportManifest(c))(r)
	}, "export %s", c)
}

func (r *Run) removeExport(c cell) error {
	e := &mcsv1beta1.ServiceExport{}
	e.Namespace, e.Name = c.namespace, c.name
	return client.IgnoreNotFound(r.Members[c.cluster].Client.Delete(context.Background(), e))
}

func (s *Script) unexport(c cell) {
	s.add(func(r *Run) error { return r.removeExport(c) }, "un-export %s", c)
}

func (s *Script) mark(c cell, state *serviceState) {
	next := map[string][]string{"": {"labels", "annotations"}, "labels": {"", "annotations"}, "annotations": {"", "labels"}}[state.mark]
	state.mark = next[s.IntN(2)]
	s.add(apply(c, state.serviceManifest(c)), "mark %s: %q", c, state.mark)
}

// extend asks for endpoints of other clusters, or no longer.
func (s *Script) extend(c cell, state *serviceState) {
	state.extended = !state.extended
	s.add(apply(c, state.serviceManifest(c)), "extend %s: %v", c, state.extended)
}

// change gives a Service other ports or another kind. Another kind needs a new Service.
func (s *Script) change(c cell, state *serviceState) {
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
	s.add(func(r *Run) error {
		if err := r.Members[c.cluster].Plane.DeleteContext(context.Background(), []byte(service)); err != nil {
			return err
		}
		return apply(c, service)(r)
	}, "replace %s: %s", c, state)
}

// remove deletes the Service and, in half of all cases, its EndpointSlices. A user's ServiceExport stays.
func (s *Script) remove(c cell, state *serviceState) {
	gone := []string{state.serviceManifest(c)}
	state.kind, state.mark = "", ""
	what := "Service"
	if s.IntN(2) == 0 {
		what = "Service and EndpointSlices"
		for i := range state.slices {
			gone = append(gone, state.slices[i].manifest(c, i))
		}
		state.slices = [slicesPerService]sliceText{}
	}
	s.add(func(r *Run) error {
		return r.Members[c.cluster].Plane.DeleteContext(context.Background(), fleettest.Documents(gone))
	}, "delete %s: %s", c, what)
}

func (s *Script) scale(c cell, state *serviceState) {
	i := s.IntN(slicesPerService)
	state.slices[i] = s.newSlice(c, state, i)
	s.add(apply(c, state.slices[i].manifest(c, i)), "scale %s: slice %d: %s", c, i, state.slices[i].text)
}

// conflict exports the same name from two clusters, whose specs usually differ.
func (s *Script) conflict(c cell) {
	for range 2 {
		state := s.cells[c]
		if state == nil {
			state = &serviceState{}
			s.cells[c] = state
		}
		if state.kind == "" {
			s.create(c, state)
		}
		s.export(c, state)
		for next := (c.cluster + 1) % len(s.set.clusters); ; next = (next + 1) % len(s.set.clusters) {
			if c.cluster = next; !s.missing[c.place] {
				break
			}
		}
	}
}

// drain turns a cluster's drain on or off.
func (s *Script) drain() {
	cluster, drain := s.IntN(len(s.set.clusters)), s.IntN(2) == 0
	s.add(func(r *Run) error { return r.Drain(cluster, drain) }, "drain cluster %d: %v", cluster, drain)
}

// apply applies manifests in a cell's cluster.
func apply(c cell, manifests ...string) func(*Run) error {
	return func(r *Run) error {
		return r.Members[c.cluster].Plane.ApplyContext(context.Background(), fleettest.Documents(manifests))
	}
}
