package console

import (
	_ "embed"
	"encoding/json"
	"strings"
)

// axe-core is only in the tests, not in a program. The tests evaluate it over the DevTools protocol, so the page's
// Content-Security-Policy needn't allow it.
//
//go:embed testdata/axe/axe.min.js
var axe string

// accessible fails the test if axe-core finds a violation in what the page shows, in the light or the dark theme.
func (p *tab) accessible() {
	p.Helper()
	if !eval[bool](p, "!!window.axe") {
		p.do("(() => {" + axe + "\n})()")
	}
	for _, dark := range []bool{false, true} {
		p.dark(dark)
		result := eval[string](p, `axe.run(document, { resultTypes: ["violations"] }).then((r) => JSON.stringify({
			passes: r.passes.length,
			violations: r.violations.map((v) => ({ id: v.id, help: v.help, nodes: v.nodes.slice(0, 3).map((n) => n.html.slice(0, 200) + " — " + n.failureSummary) })),
		}))`)
		var found struct {
			Passes     int
			Violations []struct {
				ID, Help string
				Nodes    []string
			}
		}
		if err := json.Unmarshal([]byte(result), &found); err != nil {
			p.Fatal(err)
		}
		if found.Passes < 10 {
			p.Errorf("axe-core checked only %d rules at %s: does it see the page?", found.Passes, p.address())
		}
		for _, v := range found.Violations {
			p.Errorf("%s, dark %v: %s: %s\n%s", p.address(), dark, v.ID, v.Help, strings.Join(v.Nodes, "\n"))
		}
	}
	p.dark(false)
}
