package random

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/clusterset/clusterset/test/faultproxy"
	"github.com/clusterset/clusterset/test/fleet"
	"github.com/clusterset/clusterset/test/fleettest"
)

// Script is the sequence of steps of one run. It follows from the seed alone and looks nothing up, so a failed seed repeats the
// same steps.
type Script struct {
	*rand.Rand
	seed       uint64
	set        setup
	Namespaces []string
	cells      map[cell]*serviceState
	missing    map[place]bool   // namespaces that a cluster doesn't have
	in         map[int][]string // the communities that each cluster is in
	cut        map[int]int      // the cluster that each cluster can't reach
	down       map[int]bool     // by process number
	operations []operation
	kills      int
}

// setup is the fleet that a script is for, and the script's size.
type setup struct {
	clusters []fleettest.Spec
	// elsewhere are the locations of additional DNS servers, besides the one in each cluster. The first additional server reads
	// the second cluster's objects, and so on.
	elsewhere []fleet.Location
	// communities are the communities that clusters can be put into. Without any, no operation changes which exports a cluster
	// sees.
	communities []string
	// networks are the networks that the clusters are in at first. Without any, all stay in one.
	networks []string
	// external gives most Services external addresses.
	external bool
	// reach lets paths between clusters break. All clusters need beacons for it.
	reach      bool
	names      int // how many names services have in each namespace
	operations int
}

// processes returns how many processes can be killed.
func (s setup) processes() int { return 1 + 2*len(s.clusters) + len(s.elsewhere) }

// operation is one step of the script, with its description.
type operation struct {
	text string
	do   func(*Run) error
}

type place struct {
	cluster   int
	namespace string
}

// cell is a service's place in one cluster.
type cell struct {
	place
	name string
}

func (c cell) String() string {
	return fmt.Sprintf("%s/%s in cluster %d", c.namespace, c.name, c.cluster)
}

// newScript returns the script for a seed. The run's number separates the namespaces of several runs in one fleet.
func newScript(set setup, seed uint64, run int) *Script {
	s := &Script{
		Rand: rand.New(rand.NewPCG(seed, 0)), //nolint:gosec // repeatable on purpose
		seed: seed, set: set, cells: map[cell]*serviceState{}, missing: map[place]bool{}, in: map[int][]string{}, cut: map[int]int{}, down: map[int]bool{},
	}
	for _, ns := range []string{"shop", "bank", "lab", "late"} {
		s.Namespaces = append(s.Namespaces, fmt.Sprintf("%s-%d", ns, run))
	}
	lab, late := s.Namespaces[2], s.Namespaces[3]
	s.missing[place{2, lab}] = true // for the whole run
	s.missing[place{1, late}] = true
	for c := range set.clusters {
		for _, ns := range s.Namespaces {
			if p := (place{c, ns}); !s.missing[p] {
				s.appear(p)
			}
		}
	}
	s.gather()
	s.separate()
	if set.communities != nil || set.networks != nil {
		s.exportEverywhere(s.Namespaces[0])
	}
	n := set.operations
	appears := n/4 + s.IntN(n/2)
	for i := range n {
		if i == appears {
			delete(s.missing, place{1, late})
			s.appear(place{1, late})
		}
		switch i {
		case n / 2:
			s.disband()
			s.unite()
		case n - n/4:
			s.gather()
			s.separate()
		}
		if s.set.reach && (i == n/8 || i == n/2) {
			s.reach() // at least, so that no seed leaves it out
		}
		s.step()
		s.fate()
		if i%(n/4) == n/4-1 {
			s.rest()
		}
	}
	return s
}

// String returns the operations' descriptions, numbered.
func (s *Script) String() string {
	var b strings.Builder
	for i, op := range s.operations {
		fmt.Fprintf(&b, "%4d %s\n", i, op.text)
	}
	return b.String()
}

func (s *Script) add(do func(*Run) error, format string, args ...any) {
	s.operations = append(s.operations, operation{fmt.Sprintf(format, args...), do})
}

// appear creates a namespace. In most of them Services may be extended.
func (s *Script) appear(p place) {
	labels := `labels: {clusterset.dev/extend: allowed}`
	if strings.HasPrefix(p.namespace, "bank") {
		labels = "labels: {}"
	}
	manifest := fmt.Sprintf("{apiVersion: v1, kind: Namespace, metadata: {name: %s, %s}}", p.namespace, labels)
	s.add(func(r *Run) error {
		return r.Members[p.cluster].Plane.ApplyContext(context.Background(), []byte(manifest))
	}, "namespace %s appears in cluster %d", p.namespace, p.cluster)
}

// rest starts every process that is down, and waits until all answers are right. Without it, the script would end before most of
// its changes took effect.
func (s *Script) rest() {
	clear(s.down)
	s.add((*Run).rest, "rest until all answers are right")
}

// fate kills a running process, or starts one that was killed.
func (s *Script) fate() {
	if s.IntN(100) >= 20 {
		return
	}
	i := s.IntN(s.set.processes())
	if s.IntN(3) > 0 {
		i = s.IntN(1 + len(s.set.clusters)) // agents and the hub process have more state to lose
	}
	if s.down[i] {
		s.down[i] = false
		s.add(func(r *Run) error { return r.Processes()[i].Start(context.Background()) }, "start process %d", i)
		return
	}
	s.kills++
	kill := func(r *Run) { r.Processes()[i].Kill() }
	if s.IntN(2) == 0 {
		s.add(func(r *Run) error {
			kill(r)
			return r.Processes()[i].Start(context.Background())
		}, "kill process %d and start it", i)
		return
	}
	s.down[i] = true
	s.add(func(r *Run) error { kill(r); return nil }, "kill process %d", i)
}

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
			state.slices[0] = fmt.Sprintf("ports: [{name: http, protocol: TCP, port: 80}], endpoints: [{addresses: [10.20%d.0.9]}]", cluster)
			s.place(c, state, true)
		}
	}
	s.set.networks = networks
	s.separate()
	s.across()
	s.set.networks = nil // the clusters stay in them: Churn moves none
	return s
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

// broken are ways to break the path to a cluster.
var broken = []struct {
	how       string
	condition faultproxy.Condition
}{
	{"connections are refused", faultproxy.Condition{Refused: true}},
	{"packets are dropped", faultproxy.Condition{ToServer: true, ToClient: true}},
	{"its replies are dropped", faultproxy.Condition{ToClient: true}},
	{"large packets are dropped", faultproxy.Condition{Largest: 1200}},
}

// reach breaks the path from one cluster to another, or mends the one that is broken. The path back stays as it is, and so do those of the
// other clusters. No more than one path of a cluster is broken at a time: one that reaches no other keeps its verdicts (D47).
func (s *Script) reach() {
	from := s.IntN(len(s.set.clusters))
	if to, ok := s.cut[from]; ok {
		delete(s.cut, from)
		s.add(func(r *Run) error {
			r.Paths.Mend(r.Members[from].Spec.Name, r.Members[to].Spec.Name)
			return nil
		}, "cluster %d reaches cluster %d again", from, to)
		return
	}
	to := (from + 1 + s.IntN(len(s.set.clusters)-1)) % len(s.set.clusters)
	b := broken[s.IntN(len(broken))]
	s.cut[from] = to
	s.add(func(r *Run) error {
		r.Paths.Cut(r.Members[from].Spec.Name, r.Members[to].Spec.Name, b.condition)
		return nil
	}, "cluster %d can't reach cluster %d: %s", from, to, b.how)
}
