package random

import "github.com/clusterset/clusterset/test/faultproxy"

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
