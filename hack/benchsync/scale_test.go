package main

import (
	"testing"
	"time"
)

// Small cluster sets go through the parts that run alone. The times are not checked, but for those of a storm.
//
// Scale: everything is imported, every change is answered, nothing is lost, and the agent writes nothing while idle but the stamp of its
// Reachability.
//
// Communities: a member has the watches that docs/sizing.md states, and a change reaches only members that share a community.
//
// Storm: all is well again after the hub was away, was restored and was full, and the requests are bounded (rule C70 of
// docs/spec/control-plane.md), and so is the time: see stormFactor and stormLimit.
func TestSmallSets(t *testing.T) {
	if testing.Short() {
		t.Skip("starts control planes")
	}
	for _, p := range []struct {
		part
		sizes sizes
	}{
		{scale, sizes{clusters: 8, services: 5, slices: 1, endpoints: 3, sharing: 3, rate: 20, time: 3 * time.Second, rolled: 10, idle: 3 * time.Second}},
		{communities, sizes{clusters: 6, services: 2, slices: 1, endpoints: 2, sharing: 1, changes: 5, communities: []int{0, 3, 6}}},
		{storm, sizes{clusters: 6, services: 20, time: 10 * time.Second, rolled: 20, idle: time.Second}},
	} {
		t.Run(p.name, func(t *testing.T) {
			b := &bench{dir: t.TempDir(), limit: 5 * time.Minute}
			p.part.sizes = p.sizes
			if err := b.measure(t.Context(), "../..", []part{p.part}, t.Output()); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestSizesFrom(t *testing.T) {
	env := func(of map[string]string) func(string) string { return func(name string) string { return of[name] } }
	if s, err := sizesFrom(env(map[string]string{"CLUSTERS": "25", "TIME": "90s"}), scale.sizes); err != nil || s.clusters != 25 || s.time != 90*time.Second || s.services != 100 {
		t.Errorf("got %+v, %v", s, err)
	}
	for _, wrong := range []map[string]string{{"RATE": "0"}, {"SERVICES": "many"}, {"TIME": "5"}, {"ENDPOINTS": "101"}, {"CLUSTERS": "1"}} {
		if s, err := sizesFrom(env(wrong), scale.sizes); err == nil {
			t.Errorf("%v is taken for %+v", wrong, s)
		}
	}
}
