package random

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
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
	case n < 92:
		s.conflict(c)
	case n < 96:
		s.share(c, state)
	case n < 98 && s.set.reach:
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
	s.place(c, state, false)
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

// share says how many per cent of an export's endpoints are used as usual, or no longer.
func (s *Script) share(c cell, state *serviceState) {
	share := s.newShare()
	if s.IntN(3) == 0 {
		state.share = share
		s.add(apply(c, state.serviceManifest(c)), "Service %s has the share %q", c, deref(share))
		return
	}
	s.add(func(r *Run) error { return r.annotate(c, "clusterset.dev/share", share) }, "ServiceExport %s has the share %q", c, deref(share))
}

// newShare returns a random value for clusterset.dev/share, or nil for none.
func (s *Script) newShare() *string {
	return []*string{nil, nil, nil, new("0"), new("34"), new("50"), new("half")}[s.IntN(7)]
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
			gone = append(gone, sliceManifest(c, i, state.slices[i]))
		}
		state.slices = [slicesPerService]string{}
	}
	s.add(func(r *Run) error {
		return r.Members[c.cluster].Plane.DeleteContext(context.Background(), fleettest.Documents(gone))
	}, "delete %s: %s", c, what)
}

func (s *Script) scale(c cell, state *serviceState) {
	i := s.IntN(slicesPerService)
	state.slices[i] = s.newSlice(c, state, i)
	s.add(apply(c, sliceManifest(c, i, state.slices[i])), "scale %s: slice %d: %s", c, i, state.slices[i])
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

// exportEverywhere exports two services of a namespace from all clusters, so that there is something to see from the start.
func (s *Script) exportEverywhere(namespace string) {
	for cluster := range s.set.clusters {
		for n := range 2 {
			s.createExported(cell{place{cluster, namespace}, fmt.Sprintf("svc%d", n)})
		}
	}
}

// createExported creates a service that can be exported, and exports it.
func (s *Script) createExported(c cell) {
	state := &serviceState{}
	for state.kind == "" || state.kind == "ExternalName" {
		s.newService(c, state)
	}
	s.newSlices(c, state)
	s.place(c, state, true)
}

// place creates a service, and exports it if it is to be.
func (s *Script) place(c cell, state *serviceState, exported bool) {
	s.cells[c] = state
	s.add(apply(c, state.manifests(c)...), "create %s: %s", c, state)
	if exported {
		s.export(c, state)
	}
}

// changeSight changes which exports clusters see, through the communities of a cluster or the annotation of an export.
func (s *Script) changeSight() {
	c, state := s.cell()
	for tries := 0; state.kind == "" && tries < 100; tries++ {
		c, state = s.cell()
	}
	if state.kind == "" || s.IntN(5) < 2 {
		s.move()
		return
	}
	to := s.exportTo()
	if marked := state.mark != ""; marked != (s.IntN(5) == 0) { // usually the object that causes the export, sometimes the other one
		state.to = to
		s.add(apply(c, state.serviceManifest(c)), "Service %s is for %s", c, toText(to))
		return
	}
	s.add(func(r *Run) error { return r.annotate(c, "clusterset.dev/export-to", to) }, "ServiceExport %s is for %s", c, toText(to))
}

// move adds a cluster to a community, removes it from one, moves it from one to another, or removes it from all.
func (s *Script) move() {
	cluster := s.IntN(len(s.set.clusters))
	in := slices.Clone(s.in[cluster])
	what := s.IntN(8)
	if len(in) > 0 && what < 5 {
		i := s.IntN(len(in))
		in = slices.Delete(in, i, i+1)
	}
	if to := s.set.communities[s.IntN(len(s.set.communities))]; what > 2 && !slices.Contains(in, to) {
		in = append(in, to)
	}
	if what == 0 {
		in = nil
	}
	s.put(cluster, in)
}

// gather puts every cluster into the communities of its Spec, in the order of docs/operations.md.
func (s *Script) gather() {
	for cluster, spec := range s.set.clusters {
		s.put(cluster, append([]string{"default"}, spec.Communities...))
	}
	for cluster, spec := range s.set.clusters {
		s.put(cluster, spec.Communities)
	}
}

// disband removes every cluster from all communities, in the order of the same page.
func (s *Script) disband() {
	for cluster := range s.set.clusters {
		if in := s.in[cluster]; !slices.Contains(in, "default") {
			s.put(cluster, append([]string{"default"}, in...))
		}
	}
	for cluster := range s.set.clusters {
		s.put(cluster, nil)
	}
}

// put puts a cluster into communities, if the set uses any.
func (s *Script) put(cluster int, in []string) {
	if s.set.communities == nil {
		return
	}
	s.in[cluster] = in
	s.add(func(r *Run) error { return r.Put(cluster, in) }, "cluster %d is in %q", cluster, in)
}

// Put puts a cluster into communities on the hub.
func (r *Run) Put(cluster int, in []string) error {
	return r.patchMember(cluster, map[string]any{"communities": in})
}

// Drain sets or clears a cluster's drain on the hub.
func (r *Run) Drain(cluster int, drain bool) error {
	return r.patchMember(cluster, map[string]any{"drain": drain})
}

// patchMember changes a cluster's MemberCluster on the hub.
func (r *Run) patchMember(cluster int, spec map[string]any) error {
	mc := &clustersetv1alpha1.MemberCluster{}
	mc.Name = r.Members[cluster].Spec.Name
	patch, err := json.Marshal(map[string]any{"spec": spec})
	if err != nil {
		return err
	}
	return r.Hub.Client.Patch(context.Background(), mc, client.RawPatch(types.MergePatchType, patch))
}

// exportTo returns a random value for clusterset.dev/export-to, or nil for none.
func (s *Script) exportTo() *string {
	to := ""
	switch s.IntN(8) {
	case 0, 1:
		return nil
	case 2:
		to = []string{"", "nobody", "*, no one's"}[s.IntN(3)] // names no cluster
	default:
		some := slices.Clone(s.set.communities)
		for _, c := range s.set.clusters {
			some = append(some, c.Name)
		}
		s.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
		to = strings.Join(some[:1+s.IntN(3)], []string{",", ", ", " "}[s.IntN(3)])
	}
	return &to
}

// annotate annotates a ServiceExport if there is one, whether a user or a mark created it.
func (r *Run) annotate(c cell, key string, value *string) error {
	return client.IgnoreNotFound(r.Members[c.cluster].Annotate(c.namespace, c.name, key, value))
}

func toText(to *string) string {
	if to == nil {
		return "all"
	}
	return fmt.Sprintf("%q", *to)
}
