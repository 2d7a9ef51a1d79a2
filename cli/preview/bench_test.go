package preview

import (
	"fmt"
	"testing"
)

// BenchmarkDrain drains one of 250 clusters, in a set with 5,000 services of 5 exporters each. The cluster exports 100 of the
// services, which determine the cost.
func BenchmarkDrain(b *testing.B) {
	var clusters []string
	for i := range 250 {
		clusters = append(clusters, fmt.Sprintf("c%03d z%d,z%d r%d", i, i%30, i%30+1, i%10))
	}
	s := newSet(b, clusters...)
	for i := range 5000 {
		for j := range 5 {
			s.export(fmt.Sprintf("c%03d", (i/20+50*j)%250), fmt.Sprintf("ns%d/svc%d", i%50, i), "", fmt.Sprintf("z%d=10", (i/20+50*j)%30))
		}
	}
	state := s.state()
	b.ReportAllocs()
	for b.Loop() {
		r, err := state.Preview(b.Context(), []Change{{Drain: []string{"c007"}}}, Options{})
		if err != nil || r.Summary.Changed == 0 {
			b.Fatal(r.Summary, err)
		}
		b.ReportMetric(float64(r.Summary.Changed), "changed")
	}
}
