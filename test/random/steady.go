package random

import (
	"fmt"
	"slices"
	"strings"

	"github.com/clusterset/clusterset/test/fleettest"
)

// NewSteady returns a script that creates the services of a run, and puts the clusters into networks if there are any. The services in the first two namespaces stay as they are, so that their
// answers are known. Those in the last namespace change during the run (see Churn).
func NewSteady(clusters []fleettest.Spec, networks []string, seed uint64) *Script {
	s := newScript(setup{clusters: clusters, external: true, names: 5, operations: 4}, seed, 0) // only for its seed and setup; its operations are replaced
	s.operations, s.cells, s.missing = nil, map[cell]*serviceState{}, map[place]bool{}
	s.Namespaces = []string{"shop", "bank", "lab"}
	for cluster := range clusters {
		for _, ns := range s.Namespaces {
			s.appear(place{cluster, ns})
		}
	}
	for _, ns := range s.Namespaces[:2] {
		for n := range s.set.names {
			for cluster := range clusters {
				// Each of the first names is exported by one cluster only, and its answers go away with that cluster.
				if n < len(clusters) && n != cluster || n >= len(clusters) && s.IntN(4) == 0 {
					continue
				}
				s.createExported(cell{place{cluster, ns}, fmt.Sprintf("svc%d", n)})
			}
		}
	}
	// Every seed must cover Suspect and Expired. The services below are exported by a northern cluster and the southern one. The other
	// northern cluster prefers the northern one only until that is Suspect. The names that only one cluster exports cover Expired: their
	// answers go away with the cluster.
	for north := range 2 {
		for _, cluster := range []int{north, 2} {
			c := cell{place{cluster, "shop"}, fmt.Sprint("near", north)}
			state := &serviceState{kind: "None", ports: portSets[0]}
			state.slices[0].text = fmt.Sprintf("ports: [{name: http, protocol: TCP, port: 80}], endpoints: [{addresses: [10.20%d.0.9]}]", cluster)
			s.cells[c] = state
			s.add(apply(c, state.manifests(c)...), "create %s: %s", c, state)
			s.export(c, state)
		}
	}
	for cluster := range clusters {
		s.lend(cluster, fmt.Sprint("far", cluster))
	}
	s.set.networks = networks
	s.separate()
	s.across()
	s.set.networks = nil // the clusters stay in them: Churn moves none
	return s
}

// lend creates a service that all other clusters export, and in the cluster a Service of that name that is extended to them and has no
// endpoint of its own.
func (s *Script) lend(cluster int, name string) {
	for other := range s.set.clusters {
		c := cell{place{other, s.Namespaces[0]}, name}
		state := &serviceState{kind: "ClusterIP", ports: portSets[0], extended: other == cluster}
		if other != cluster {
			state.slices[0].text = fmt.Sprintf("ports: [{name: http, protocol: TCP, port: 8080}], endpoints: [{addresses: [10.20%d.0.8]}]", other)
		}
		s.cells[c] = state
		s.add(apply(c, state.manifests(c)...), "create %s: %s", c, state)
		if other != cluster {
			s.export(c, state)
		}
	}
}

// Churn changes services in the last namespace, about which nobody asks before the recovery. It leaves out the cluster except, whose API
// server may be down.
func (r *Run) Churn(steps int, except string) {
	r.Helper()
	s := r.Script
	standing := s.Namespaces
	s.operations, s.Namespaces = nil, standing[len(standing)-1:]
	lab := s.Namespaces[0]
	for i, m := range r.Members {
		s.missing[place{i, lab}] = m.Spec.Name == except
	}
	for len(s.operations) < steps {
		s.step()
	}
	s.Namespaces = standing
	// A drain would change the answers of all names.
	s.operations = slices.DeleteFunc(s.operations, func(op operation) bool { return strings.HasPrefix(op.text, "drain") })
	r.Play()
}
