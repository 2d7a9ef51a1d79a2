package preview

import (
	"testing"

	"github.com/clusterset/clusterset/cli/place"
)

// What a cluster can't reach now, as its report says (D52), is where a preview starts: it doesn't promise that clients stay where they can't
// be, nor that a change moves those who have already gone.
func TestPreviewStartsFromTheVerdicts(t *testing.T) {
	s := asia(t)
	s.export("beijing", "shop/web", "", "bj-a=1")
	s.export("shanghai", "shop/web", "", "sh=1")
	s.cantReach("tianjin", "beijing,hangzhou")
	s.cantReach("hangzhou", "")
	state := s.state()
	for _, c := range []struct{ from, zone, region, want string }{
		{"tianjin", "bj-a", "north", "shanghai:1"},
		{"hangzhou", "hz", "south", "shanghai:1"},
		{"beijing", "bj-a", "north", "beijing:1"},
	} {
		a, err := state.Answers("shop/web", place.Place{Cluster: c.from, Zone: c.zone, Region: c.region}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := text(&a.Global); got != c.want {
			t.Errorf("from %s: %s, want %s", c.from, got, c.want)
		}
	}
	expect(t, state, Options{}, []Change{{Unreachable: &Unreachable{Clusters: []string{"beijing"}, From: []string{"tianjin"}}}}) // broken already
	expect(t, state, Options{}, []Change{{Down: []string{"shanghai"}}},
		"shop/web from tianjin/bj-a/north: . | shanghai:1 => beijing:1 degraded [last-resort] | shanghai:1 => beijing:1 degraded [last-resort]",
		"shop/web from hangzhou/hz/south: . | shanghai:1 => beijing:1 [leaves-region] | shanghai:1 => beijing:1 [leaves-region]")
}
