package desired_test

import (
	"runtime"
	"slices"
	"strings"
	"testing"
	"weak"

	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/test/records"
)

// A Memory holds no endpoints, because the caches have them. With 250,000 endpoints, a second copy took 200 MiB.
func TestMemoryHoldsNoSlices(t *testing.T) {
	in := records.Input(t, desired.DataPathPods, records.Exported("a", "shop", "web", "10.1.0.1", "10.1.1.1"), records.Exported("b", "shop", "web", "10.2.0.1", "10.2.1.1"))
	for _, e := range in.Endpoints { // records in a cache have a version, and a record without one isn't remembered
		e.ResourceVersion = "1"
	}
	var memory desired.Memory
	out := memory.Compute(in, desired.Current{})
	var built []weak.Pointer[discoveryv1.EndpointSlice]
	var cur desired.Current
	for i, s := range out.Slices {
		here := s.DeepCopy()
		here.ResourceVersion = "1"
		if i == 0 {
			memory.FoundSlice(s, here)
		} else {
			memory.WroteSlice(s)
		}
		built = append(built, weak.Make(s))
		cur.Slices = append(cur.Slices, here)
	}
	out = desired.Output{} //nolint:wastedassign // it holds them too
	runtime.GC()
	for _, s := range built {
		if s := s.Value(); s != nil {
			t.Errorf("%s, found as it should be, is held", s.Name)
		}
	}
	if len(built) != 2 {
		t.Fatalf("%d slices were built, want 2", len(built))
	}
	kept := func() (kept []bool) {
		for i, s := range memory.Compute(in, cur).Slices {
			kept = append(kept, s == cur.Slices[i])
		}
		return kept
	}
	for _, s := range cur.Slices {
		memory.ShownSlice(s.Name, desired.VersionOf(s))
	}
	if got := kept(); !slices.Equal(got, []bool{true, true}) {
		t.Errorf("what is here is used again: %v", got)
	}
	cur.Slices[1].ResourceVersion = "2"
	memory.ShownSlice(cur.Slices[1].Name, desired.VersionOf(cur.Slices[1]))
	if got := kept(); !slices.Equal(got, []bool{true, false}) {
		t.Errorf("somebody else changed the second: %v", got)
	}
}

// A restored API server assigns resource versions again, to other objects.
func TestVersion(t *testing.T) {
	is := &discoveryv1.EndpointSlice{}
	is.ResourceVersion = strings.Clone("1234")
	again, other := *is, *is
	other.ResourceVersion = strings.Clone("1234")
	if !desired.VersionOf(is).Same(desired.VersionOf(&again)) || desired.VersionOf(is).Same(desired.VersionOf(&other)) {
		t.Error("a version is that of one decoded object")
	}
	if none := (&discoveryv1.EndpointSlice{}); desired.VersionOf(none).Same(desired.VersionOf(none)) {
		t.Error("an object that isn't from an API server has no version")
	}
}
