package main

import (
	"testing"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// A small cluster set goes through the measurements of make bench-scale: everything is imported, every change is answered, nothing is lost,
// and the agent holds three watches and writes nothing while idle but the stamp of its Reachability. The times are not checked.
func TestScale(t *testing.T) {
	if testing.Short() {
		t.Skip("starts two control planes")
	}
	log.SetLogger(logr.Discard())
	b := &bench{dir: t.TempDir(), limit: 5 * time.Minute, sizes: sizes{
		clusters: 8, services: 5, endpoints: 3, sharing: 3, rate: 20, time: 3 * time.Second, rolled: 10, idle: 3 * time.Second,
	}}
	if err := b.build(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := b.measure(t.Context(), []part{scale}, t.Output()); err != nil {
		t.Fatal(err)
	}
}

// A small cluster set goes through -only communities: a member has the watches that docs/sizing.md states, and receives nothing about a
// change in a cluster with which it shares no community.
func TestCommunities(t *testing.T) {
	if testing.Short() {
		t.Skip("starts two control planes")
	}
	log.SetLogger(logr.Discard())
	b := &bench{dir: t.TempDir(), limit: 5 * time.Minute, changes: 5, sizes: sizes{
		clusters: 6, services: 2, endpoints: 2, sharing: 1, idle: time.Second, communities: []int{0, 3, 6},
	}}
	if err := b.build(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := b.measure(t.Context(), []part{communities}, t.Output()); err != nil {
		t.Fatal(err)
	}
}

// A small cluster set goes through -only storm: all is well again after the hub was away, was restored and was full, and the requests are
// bounded (rule C70 of docs/spec/control-plane.md), and so is the time: see stormFactor and stormLimit.
func TestStorm(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three control planes")
	}
	log.SetLogger(logr.Discard())
	b := &bench{dir: t.TempDir(), limit: 2 * time.Minute, sizes: sizes{
		clusters: 6, services: 20, endpoints: 1, time: 10 * time.Second, rolled: 20, idle: time.Second,
	}}
	if err := b.build(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := b.measure(t.Context(), []part{storm}, t.Output()); err != nil {
		t.Fatal(err)
	}
}

func TestSizesFrom(t *testing.T) {
	env := func(of map[string]string) func(string) string { return func(name string) string { return of[name] } }
	if s, err := sizesFrom(env(map[string]string{"CLUSTERS": "25", "TIME": "90s"}), *scale.sizes); err != nil || s.clusters != 25 || s.time != 90*time.Second || s.services != 100 {
		t.Errorf("got %+v, %v", s, err)
	}
	for _, wrong := range []map[string]string{{"RATE": "0"}, {"SERVICES": "many"}, {"TIME": "5"}, {"ENDPOINTS": "101"}, {"CLUSTERS": "1"}} {
		if s, err := sizesFrom(env(wrong), *scale.sizes); err == nil {
			t.Errorf("%v is taken for %+v", wrong, s)
		}
	}
}
