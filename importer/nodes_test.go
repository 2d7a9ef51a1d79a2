package importer

import (
	"slices"
	"testing"

	"github.com/clusterset/clusterset/importer/desired"
)

func TestNodes(t *testing.T) {
	changes := 0
	n := newNodes(func() { changes++ })
	zone := func(z string) map[string]string { return map[string]string{"topology.kubernetes.io/zone": z} }
	check := func(what string, want int, zones ...string) {
		t.Helper()
		var got []string
		for _, p := range n.places() {
			got = append(got, p.Zone)
		}
		if changes != want || !slices.Equal(got, zones) {
			t.Errorf("%s: %d changes, zones %q; want %d, %q", what, changes, got, want, zones)
		}
	}
	n.set("n1", zone("b"), false)
	n.set("n2", zone("a"), false)
	check("two nodes", 2, "a", "b")
	n.set("n1", zone("b"), false)
	n.set("n3", zone("a"), false)
	check("a heartbeat, and another node of a zone", 2, "a", "b")
	n.set("n1", zone("a"), false)
	check("the last of a zone moves", 3, "a")
	n.set("n4", nil, false)
	check("a node without a zone", 4, "", "a")
	n.set("n4", nil, true)
	n.set("n4", nil, true)
	n.set("n3", nil, true)
	check("it goes, and one of several", 5, "a")
	if zones, known := n.zones(); known {
		t.Errorf("zones %v are reported before all nodes are known", zones)
	}
	n.set("n5", zone("c"), false)
	n.set("n6", nil, false)
	n.allKnown()
	if zones, known := n.zones(); !known || !slices.Equal(zones, []string{"a", "c"}) || changes != 8 {
		t.Errorf("zones %v, known: %t, %d changes", zones, known, changes)
	}
	n.set("n5", nil, true)
	n.set("n6", nil, true)
	if got := n.places(); got[0] != (desired.NodePlace{Zone: "a"}) {
		t.Errorf("places are %v", got)
	}
}
