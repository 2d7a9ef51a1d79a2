//go:build !race

// These tests count allocations. The race detector would add its own and make the tests take minutes. To run them: make test-bounds.

package importer

import (
	"fmt"
	"runtime"
	"testing"

	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/importer/desired"
)

// TestEndpointChangeAllocates bounds the memory that a changed endpoint of one of 250 clusters costs: all that is wanted of the service is
// computed, and compared with what is there.
func TestEndpointChangeAllocates(t *testing.T) {
	for _, c := range []struct {
		kind               mcsv1beta1.ServiceImportType
		endpoints          int
		compute, reconcile uint64 // kB
	}{
		{mcsv1beta1.ClusterSetIP, 10, 2600, 5500},
		{mcsv1beta1.ClusterSetIP, 400, 65_000, 85_000},
		{mcsv1beta1.Headless, 10, 1700, 5000},
		{mcsv1beta1.Headless, 400, 35_000, 47_000},
	} {
		t.Run(fmt.Sprintf("%s/250x%d", c.kind, c.endpoints), func(t *testing.T) {
			g := large(t, c.kind, 250, c.endpoints)
			compute, whole := ^uint64(0), ^uint64(0)
			for i := range 3 { // the minimum counts, because other goroutines allocate too
				g.flip("cluster-100", i%2 == 1)
				in, _ := g.gathered(t)
				compute = min(compute, allocated(func() { desired.Compute(in) }))
				g.reconcile(t)
				g.flip("cluster-200", i%2 == 1)
				whole = min(whole, allocated(func() { g.once(t) }))
				g.reconcile(t)
			}
			t.Logf("computing allocates %d kB, the reconcile of the change %d kB", compute/1000, whole/1000)
			if compute > c.compute*1000 || whole > c.reconcile*1000 {
				t.Errorf("want no more than %d and %d kB", c.compute, c.reconcile)
			}
		})
	}
}

func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
