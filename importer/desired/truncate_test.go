package desired

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
)

// some returns n endpoints of a cluster, of which the first ones are not ready.
func some(cluster string, n, unready int) []fabedgev1alpha1.Endpoint {
	all := make([]fabedgev1alpha1.Endpoint, n)
	for i := range all {
		all[i] = fabedgev1alpha1.Endpoint{Cluster: cluster, Addresses: []string{fmt.Sprintf("10.0.%d.%d", i/250, i%250)}}
		if i < unready {
			all[i].Ready = new(bool)
		}
	}
	return all
}

// truncate returns the endpoints that fit the limit.
func truncate(all []fabedgev1alpha1.Endpoint, limit int) (kept []fabedgev1alpha1.Endpoint) {
	var shares []share
	for i := range all {
		if n := len(shares); n == 0 || shares[n-1].cluster.name != all[i].Cluster {
			shares = append(shares, share{cluster: &cluster{name: all[i].Cluster}})
		}
		s := &shares[len(shares)-1]
		s.all = append(s.all, all[i])
		s.of, s.size = len(s.all), sizeOfAll(s.all)
	}
	fit(shares, limit, nil)
	for i := range shares {
		kept = append(kept, shares[i].chosen(nil)...)
	}
	return kept
}

func TestTruncate(t *testing.T) {
	for _, tc := range []struct {
		name  string
		all   []fabedgev1alpha1.Endpoint
		limit int
		want  string
	}{
		{"all where there is room", slices.Concat(some("a", 3, 0), some("b", 2, 0)), 5, "a:3 b:2"},
		{"evenly", slices.Concat(some("a", 9, 0), some("b", 9, 0), some("c", 9, 0)), 9, "a:3 b:3 c:3"},
		{"the small whole, what they leave to the large", slices.Concat(some("a", 100, 0), some("b", 2, 0), some("c", 50, 0)), 22, "a:10 b:2 c:10"},
		{"to the last", slices.Concat(some("a", 9, 0), some("b", 9, 0)), 5, "a:2 b:3"},
		{"one cluster", some("a", 9, 0), 4, "a:4"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			counts := map[string]int{}
			kept := truncate(tc.all, tc.limit)
			for _, e := range kept {
				counts[e.Cluster]++
			}
			var got []string
			for _, c := range []string{"a", "b", "c"} {
				if counts[c] > 0 {
					got = append(got, fmt.Sprintf("%s:%d", c, counts[c]))
				}
			}
			if text := strings.Join(got, " "); text != tc.want {
				t.Errorf("kept %s, want %s", text, tc.want)
			}
		})
	}
}

func TestTruncateKeepsTheReadyOnes(t *testing.T) {
	kept := truncate(some("a", 10, 6), 5)
	ready := 0
	for i := range kept {
		if kept[i].IsReady() {
			ready++
		}
	}
	if len(kept) != 5 || ready != 4 {
		t.Errorf("kept %d, of them %d ready; want 5 and all 4 ready ones", len(kept), ready)
	}
	if !slices.IsSortedFunc(kept, func(a, b fabedgev1alpha1.Endpoint) int { return slices.Compare(a.Addresses, b.Addresses) }) {
		t.Errorf("the order changed: %v", kept)
	}
}

func TestTruncateMindsTheSize(t *testing.T) {
	all := slices.Concat(some("a", 2000, 0), some("b", 2000, 0))
	for i := range all {
		for p := range 100 {
			if all[i].Cluster == "b" {
				all[i].Ports = append(all[i].Ports, fabedgev1alpha1.EndpointPort{Name: fmt.Sprintf("port-%d", p), Port: 1})
			}
		}
	}
	kept := truncate(all, 4096)
	size := 0
	for i := range kept {
		size += sizeOf(&kept[i])
	}
	if size > maxGlobalServiceBytes || size < maxGlobalServiceBytes/2 || len(kept) < 100 {
		t.Errorf("kept %d endpoints of %d bytes", len(kept), size)
	}
}
