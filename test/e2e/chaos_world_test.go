package e2e

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/test/kube"
)

// chaosPhase is the phase in which the clusters see the victim.
type chaosPhase = clustersetv1alpha1.MemberClusterPhase

const (
	chaosReady     = clustersetv1alpha1.MemberReady
	chaosSuspected = clustersetv1alpha1.MemberSuspect
	chaosExpired   = clustersetv1alpha1.MemberExpired
)

// chaosScript makes the services of a run. Those of the first two namespaces stay as they are, so that their answers are
// known; those of the last change during the run (see churn).
func chaosScript(clusters []clusterSpec, seed uint64) *script {
	s := newScript(randomSet{clusters: clusters, names: 5, operations: 4}, seed, 0) // only for its place in the world; its steps are replaced
	s.operations, s.cells, s.missing = nil, map[randomCell]*randomState{}, map[randomPlace]bool{}
	s.namespaces = []string{"shop", "bank", "lab"}
	for cluster := range clusters {
		for _, ns := range s.namespaces {
			s.appear(randomPlace{cluster, ns})
		}
	}
	for _, ns := range s.namespaces[:2] {
		for n := range s.set.names {
			for cluster := range clusters {
				// The first names are exported by one cluster each: they go with it.
				if n < len(clusters) && n != cluster || n >= len(clusters) && s.IntN(4) == 0 {
					continue
				}
				c := randomCell{randomPlace{cluster, ns}, fmt.Sprintf("svc%d", n)}
				state := &randomState{}
				s.cells[c] = state
				for state.kind == "" || state.kind == "ExternalName" {
					s.newService(c, state)
				}
				s.newSlices(c, state)
				s.add(apply(c, state.manifests(c)...), "create %s: %s", c, state)
				s.export(c, state)
			}
		}
	}
	// Whatever the seed, some answers show that a northern cluster is Suspect, and others that it has Expired: the other northern
	// cluster prefers it to the southern one, and the names of a cluster of its own go with it.
	for north := range 2 {
		for _, cluster := range []int{north, 2} {
			c := randomCell{randomPlace{cluster, "shop"}, fmt.Sprint("near", north)}
			state := &randomState{kind: "None", ports: randomPortSets[0]}
			state.slices[0].text = fmt.Sprintf("ports: [{name: http, protocol: TCP, port: 80}], endpoints: [{addresses: [10.20%d.0.9]}]", cluster)
			s.cells[c] = state
			s.add(apply(c, state.manifests(c)...), "create %s: %s", c, state)
			s.export(c, state)
		}
	}
	return s
}

// churn changes services in the namespace that nobody asks about until the recovery, in clusters other than the victim,
// whose API server may be down.
func (c *chaos) churn(steps int) {
	c.Helper()
	s := c.script
	standing := s.namespaces
	s.operations, s.namespaces = nil, standing[len(standing)-1:]
	lab := s.namespaces[0]
	for i, m := range c.members {
		s.missing[randomPlace{i, lab}] = m.name == c.victim.name
	}
	for len(s.operations) < steps {
		s.step()
	}
	s.namespaces = standing
	for _, op := range s.operations {
		if strings.HasPrefix(op.text, "drain") {
			continue // it would change what all names answer
		}
		if err := op.do(c.randomRun); err != nil {
			c.Fatalf("%s: %v", op.text, err)
		}
	}
}

// foresee computes the expected answers with the victim in each phase.
func (c *chaos) foresee() {
	c.Helper()
	w := c.look()
	questions := answers{}
	for _, s := range c.servers {
		for _, zone := range randomZones {
			for name := range w.zone(zone, s).names {
				if !strings.Contains(name, ".lab.") && !strings.HasPrefix(name, "lab.") {
					for _, qtype := range []string{"A", "AAAA", "SRV"} {
						questions[question{name, qtype}] = ""
					}
				}
			}
		}
	}
	c.phases = map[chaosPhase][]answers{}
	for _, phase := range []chaosPhase{chaosReady, chaosSuspected, chaosExpired} {
		for _, cluster := range w.clusters {
			if cluster.name == c.victim.name {
				cluster.drained, cluster.expired = phase == chaosSuspected, phase == chaosExpired
			}
		}
		c.phases[phase] = c.answersIn(w, questions)
	}
}

// look reads the world.
func (c *chaos) look() (w *world) {
	c.Helper()
	kube.Eventually(c, soon, func() (err error) {
		w, err = c.observe()
		return err
	})
	return w
}

// answersIn are what each server is to answer to the questions in a world.
func (c *chaos) answersIn(w *world, questions answers) (stage []answers) {
	for _, s := range c.servers {
		all := answers{}
		for _, zone := range randomZones {
			z := w.zone(zone, s)
			for q := range questions {
				if strings.HasSuffix(q.name, "."+zone) || q.name == zone {
					all[q] = z.answer(q.name, q.qtype)
				}
			}
		}
		stage = append(stage, all)
	}
	return stage
}

// recorded returns nil once every export is on the hub. Answers alone don't show that: importers keep what a hub has lost.
func (c *chaos) recorded() error {
	w, err := c.observe()
	if err != nil {
		return err
	}
	var errs []error
	for _, key := range w.keys() {
		for _, p := range w.parts(key) {
			errs = append(errs, c.hub.get(api.MemberNamespace(p.name), api.ExportedServiceName(key.Namespace, key.Name), &clustersetv1alpha1.ExportedService{}))
		}
	}
	return errors.Join(errs...)
}

// round is the time to ask every question once.
func (c *chaos) round() time.Duration {
	return time.Duration(len(c.phases[chaosReady][0])) * probeEvery
}
