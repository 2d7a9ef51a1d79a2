package random

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

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
	s.cells[c] = state
	for state.kind == "" || state.kind == "ExternalName" {
		s.newService(c, state)
	}
	s.newSlices(c, state)
	s.add(apply(c, state.manifests(c)...), "create %s: %s", c, state)
	s.export(c, state)
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
	s.add(func(r *Run) error { return r.exportTo(c, to) }, "ServiceExport %s is for %s", c, toText(to))
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

func (s *Script) put(cluster int, in []string) {
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

// exportTo annotates a ServiceExport if there is one, whether a user or a mark created it.
func (r *Run) exportTo(c cell, to *string) error {
	return client.IgnoreNotFound(r.Members[c.cluster].ExportTo(c.namespace, c.name, to))
}

func toText(to *string) string {
	if to == nil {
		return "all"
	}
	return fmt.Sprintf("%q", *to)
}
