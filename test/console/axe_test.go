package console

import _ "embed"

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
		found := eval[struct {
			Passes     int
			Violations []string
		}](p, `axe.run(document, { resultTypes: ["violations"] }).then((r) => ({
			Passes: r.passes.length,
			Violations: r.violations.map((v) => [v.id, v.help, ...v.nodes.slice(0, 3).map((n) => n.html.slice(0, 200) + " — " + n.failureSummary)].join("\n")),
		}))`)
		if found.Passes < 10 {
			p.Errorf("axe-core checked only %d rules at %s: does it see the page?", found.Passes, p.address())
		}
		for _, v := range found.Violations {
			p.Errorf("%s, dark %v: %s", p.address(), dark, v)
		}
	}
	p.dark(false)
}
