package main

import (
	"testing"
	"time"
)

// A small set goes through scale: everything is imported, every change is answered, nothing is lost, and the agent writes nothing while idle
// but the stamp of its Reachability. The times are not checked.
func TestScale(t *testing.T) {
	small(t, scale, sizes{clusters: 8, services: 5, slices: 1, endpoints: 3, sharing: 3, rate: 20, time: 3 * time.Second, rolled: 10, idle: 3 * time.Second})
}

// All members are Ready again in time after the hub was away. Rule C70 of docs/spec/control-plane.md.
func TestStorm(t *testing.T) {
	small(t, storm, sizes{clusters: 6, services: 20, rolled: 20, time: 10 * time.Second})
}

// small runs a part that runs alone with other sizes.
func small(t *testing.T, p part, s sizes) {
	if testing.Short() {
		t.Skip("starts control planes")
	}
	p.sizes = s
	b := &bench{dir: t.TempDir()}
	if err := b.measure(t.Context(), "../..", []part{p}, t.Output()); err != nil {
		t.Fatal(err)
	}
}

func TestSizesFrom(t *testing.T) {
	env := func(of map[string]string) func(string) string { return func(name string) string { return of[name] } }
	if s, err := sizesFrom(env(map[string]string{"CLUSTERS": "25", "TIME": "90s"}), scale.sizes); err != nil || s.clusters != 25 || s.time != 90*time.Second || s.services != 100 {
		t.Errorf("got %+v, %v", s, err)
	}
	for _, wrong := range []map[string]string{{"RATE": "0"}, {"SERVICES": "many"}, {"TIME": "5"}, {"CLUSTERS": "1"}} {
		if s, err := sizesFrom(env(wrong), scale.sizes); err == nil {
			t.Errorf("%v is taken for %+v", wrong, s)
		}
	}
}
