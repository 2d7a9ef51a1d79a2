package index

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// Every element is picked as often as its weight requires, and never twice in one reply.
func TestSample(t *testing.T) {
	alike := Targets{n: 4, number: 80, hosts: &hostList{hosts: []int32{0, 1, 2, 3}}}
	b := targetBuilder{weights: []uint8{100, 25, 25, 50}}
	for host := range int32(4) {
		b.add(host, 80, 81)
	}
	hosts := b.build() // a host's weight applies to each of its two ports
	b.add(0, 80)
	b.add(1, 80, 81, 82)
	b.add(3, 80)
	uneven := b.build()
	halved, large, family, flat := Weights{100, 150, 200}, Weights{50, 150, 200}, Weights{100, 175, 200}, Weights{100, 101, 102}
	for name, tt := range map[string]struct {
		sample func(roll func() uint64) Sample
		n      int
		want   []float64 // probability of each element
	}{
		"alike":            {func(r func() uint64) Sample { return alike.Sample(2, r) }, 2, []float64{.5, .5, .5, .5}},
		"all":              {func(r func() uint64) Sample { return alike.Sample(4, r) }, 4, []float64{1, 1, 1, 1}},
		"more than all":    {func(r func() uint64) Sample { return flat.Sample(0, 2, 9, r) }, 2, []float64{1, 1}},
		"addresses":        {func(r func() uint64) Sample { return halved.Sample(0, 3, 1, r) }, 1, []float64{.5, .25, .25}},
		"two of them":      {func(r func() uint64) Sample { return large.Sample(0, 3, 2, r) }, 2, []float64{.5, 1, .5}},
		"one family":       {func(r func() uint64) Sample { return family.Sample(1, 3, 1, r) }, 1, []float64{.75, .25}},
		"one has too much": {func(r func() uint64) Sample { return flat.Sample(0, 3, 2, r) }, 2, nil},
		"hosts":            {func(r func() uint64) Sample { return hosts.Sample(1, r) }, 1, []float64{.25, .25, .0625, .0625, .0625, .0625, .125, .125}},
		"uneven hosts":     {func(r func() uint64) Sample { return uneven.Sample(1, r) }, 1, []float64{4. / 9, 1. / 9, 1. / 9, 1. / 9, 2. / 9}},
	} {
		random := rand.New(rand.NewPCG(1, 2))
		const times = 20000
		var counts [8]float64
		for range times {
			s := tt.sample(random.Uint64)
			again := s
			var picked []int
			for range s.Len() {
				i := s.Next()
				if i != again.Next() || slices.Contains(picked, i) {
					t.Fatalf("%s: %d after %v", name, i, picked)
				}
				picked = append(picked, i)
				counts[i]++
			}
			if len(picked) != tt.n {
				t.Fatalf("%s: %d picked, want %d", name, len(picked), tt.n)
			}
		}
		for i, want := range tt.want {
			if got := counts[i] / times; got < want-.02 || got > want+.02 {
				t.Errorf("%s: %d is picked %.3f times, want %.3f", name, i, got, want)
			}
		}
		if allocs := testing.AllocsPerRun(10, func() { s := tt.sample(nil); s.Next() }); allocs != 0 {
			t.Errorf("%s: %.0f allocations", name, allocs)
		}
	}
}
