//go:build !race

// These tests measure memory, to which the race detector would add its own. To run them: make test-bounds.

package importer

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

// TestWhatIsLeftOutCostsLittle bounds what an importer keeps for records without a single valid address, with the declared networks
// of their cluster and without. Rule C52 of docs/spec/control-plane.md.
func TestWhatIsLeftOutCostsLittle(t *testing.T) {
	const records, endpoints, addresses = 25, 100, 75
	for _, c := range []struct {
		name, family string
		cidrs        []string
	}{
		{name: "of another family", family: "IPv6"},
		{name: "outside the networks", family: "IPv4", cidrs: strings.Fields(strings.Repeat("192.168.0.0/16 ", 64))},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newRig(Options{})
			m := memberAt("b", "zone-1")
			m.Spec.CIDRs = c.cidrs
			g.hub.put(m)
			g.hub.put(exportedBy("b", mcsv1beta1.ClusterSetIP, 1))
			for n := range records {
				g.hub.put(crowded(t, c.family, n, endpoints, addresses))
			}
			before := live()
			allocated := allocated(func() { g.reconcile(t) })
			kept := live() - before
			t.Logf("%d records: keeps %d kB, allocates %d kB", records, kept/1000, allocated/1000)
			if kept > records*12_000 { // the values of a hundred endpoints
				t.Errorf("keeps %d kB for %d useless records", kept/1000, records)
			}
			runtime.KeepAlive(g)
		})
	}
}

// crowded returns the n-th record of a cluster, with many addresses at each endpoint.
func crowded(t *testing.T, family string, n, endpoints, addresses int) *clustersetv1alpha1.ExportedEndpoints {
	t.Helper()
	e := endpointsOf("b", 1, n, 0)
	var text strings.Builder
	fmt.Fprintf(&text, `{"spec":{"addressType":%q,"endpoints":[`, family)
	for i := range endpoints {
		text.WriteString(","[:min(i, 1)] + `{"addresses":[`)
		for j := range addresses {
			fmt.Fprintf(&text, `%s"10.%d.%d.%d"`, ","[:min(j, 1)], n, i, j+1)
		}
		text.WriteString("]}")
	}
	text.WriteString("]}}")
	if err := json.Unmarshal([]byte(text.String()), e); err != nil {
		t.Fatal(err)
	}
	return e
}

// live returns the bytes on the heap that are in use.
func live() int64 {
	runtime.GC()
	runtime.GC() // the first may leave what finalizers refer to
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc) //nolint:gosec // no heap is that large
}
