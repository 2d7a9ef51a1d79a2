package desired_test

import (
	"runtime"
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
	for _, s := range out.Slices {
		here := s.DeepCopy()
		here.ResourceVersion = "1"
		memory.FoundSlice(s, here)
		built = append(built, weak.Make(s))
	}
	out = desired.Output{} //nolint:wastedassign // it holds them too
	runtime.GC()
	for _, s := range built {
		if s := s.Value(); s != nil {
			t.Errorf("%s, found as it should be, is held", s.Name)
		}
	}
	if len(built) != 2 {
		t.Errorf("%d slices were built, want 2", len(built))
	}
	runtime.KeepAlive(&memory)
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
