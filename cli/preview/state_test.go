package preview

import "testing"

// What a cluster can't reach now, as its report says (D52), is where a preview starts: it doesn't promise that clients stay where they can't
// be, nor that a change moves those who have already gone.
func TestPreviewStartsFromTheVerdicts(t *testing.T) {
	s := asia(t)
	s.export("beijing", "shop/web", "", "bj-a=1")
	s.export("shanghai", "shop/web", "", "sh=1")
	s.cantReach("tianjin", "beijing,hangzhou")
	s.cantReach("hangzhou", "")
	state := s.state()
	expect(t, state, Options{}, []Change{{Unreachable: &Unreachable{Clusters: []string{"beijing"}, From: []string{"tianjin"}}}}) // broken already
	expect(t, state, Options{}, []Change{{Down: []string{"shanghai"}}},
		"shop/web from tianjin/bj-a/north: . | shanghai:1 => beijing:1 degraded [last-resort] | shanghai:1 => beijing:1 degraded [last-resort]",
		"shop/web from hangzhou/hz/south: . | shanghai:1 => beijing:1 [leaves-region] | shanghai:1 => beijing:1 [leaves-region]")
}
