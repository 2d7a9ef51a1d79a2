package console

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/clusterset/clusterset/cli/preview"
)

// Every kind of change can be composed on the page, and the page shows the same result as `clusterset preview`.
func TestWhatIf(t *testing.T) {
	dir := files(t, records(cities, services))
	p := open(t, start(t, "--manifests", dir), "#/whatif")
	for _, c := range []struct {
		kind   string
		fields map[string]string
		change string
		sees   []string
	}{
		{"Switch off", map[string]string{"cluster": "beijing-1"}, `[{"down": ["beijing-1"]}]`, []string{"payments/ledger lost 11 places"}},
		{"Drain", map[string]string{"cluster": "beijing-1"}, `[{"drain": ["beijing-1"]}]`, []string{"payments/ledger last resort"}},
		{"End a drain", map[string]string{"cluster": "tianjin"}, `[{"undrain": ["tianjin"]}]`, []string{"end the drain of tianjin"}},
		{"Take out of the set", map[string]string{"cluster": "beijing-1"}, `[{"leave": ["beijing-1"]}]`, []string{"take beijing-1 out of the set", "payments/ledger lost"}},
		{
			"Move",
			map[string]string{"cluster": "xiamen", "zones": "cn-east-1a, cn-east-1b", "region": "cn-east"},
			`[{"place": {"cluster": "xiamen", "zones": ["cn-east-1a", "cn-east-1b"], "region": "cn-east"}}]`,
			[]string{"move xiamen to zone cn-east-1a, cn-east-1b, region cn-east"},
		},
		{
			"Set a policy",
			map[string]string{"service": "shop/checkout", "prefer": "none", "minReady": "3"},
			`[{"policy": {"service": "shop/checkout", "prefer": "none", "minReady": 3}}]`,
			[]string{"policy of shop/checkout: prefer none, min-ready 3"},
		},
		{"End an export", map[string]string{"service": "payments/ledger", "cluster": "beijing-1"}, `[{"unexport": {"service": "payments/ledger", "from": "beijing-1"}}]`, []string{"1 lost"}},
	} {
		t.Run(c.kind, func(t *testing.T) {
			p.goTo("#/whatif")
			p.until(`!document.querySelector(".chip")`)
			p.click(".builder .segments a", c.kind)
			p.until(found(".builder .segments a", c.kind) + `?.ariaPressed === "true"`)
			for name, value := range c.fields {
				p.fill("input[name="+name+"]", value)
			}
			p.click("button", "Add the change")
			want := previewed(t, dir, c.change)
			p.until(`document.querySelector("#result")?.innerText === ` + quote(want.Summary.Text))
			p.sees(c.sees...)
			p.until(`document.querySelectorAll(".changes .rows .row").length === ` + quoteInt(len(want.Services)))
		})
	}

	// Changes add up, every view shows them, and each can be taken back.
	p.goTo("#/whatif?if=down+beijing-1&if=drain+shanghai-1")
	p.sees("switch off beijing-1", "drain shanghai-1")
	p.accessible()
	p.click(".filters .toggle", "lost")
	p.until(`document.querySelectorAll(".changes .rows .row").length === 1`)
	p.click(".rows .name a", "ledger")
	p.until(`document.querySelector("h1").innerText.includes("ledger")`)
	p.until(`document.querySelector(".mhead .mstate").innerText.includes("off")`)
	p.accessible()
	p.click("nav a", "Map")
	p.until(found(".tile.changed", "beijing-1") + `?.innerText.includes("off")`)
	p.until(found(".tile.changed", "shanghai-1") + `?.innerText.includes("would be drained")`)
	p.accessible()
	p.click("nav a", "Services")
	p.until(found(".rows .row.changed", "payments/ledger") + `?.innerText.includes("lost")`)
	p.accessible()
	p.click(".chip a", "Take back: switch off beijing-1")
	p.seesNot("switch off beijing-1")
	p.sees("drain shanghai-1")
	p.click(".whatifbar a", "Clear")
	p.seesNot("drain shanghai-1")

	// The page reports changes that are impossible.
	p.mayFail() // the browser logs each 400
	p.goTo("#/whatif?if=drain+nowhere")
	p.until(`document.querySelector(".whatifbar [role=alert]")?.innerText.includes("nowhere is not a member; the members are")`)
	p.goTo("#/map?if=bogus")
	p.until(`!!document.querySelector(".whatifbar [role=alert]")`)
	p.accessible()
}

// previewed returns the result of `clusterset preview` for changes.
func previewed(t *testing.T, dir, changes string) (r preview.Result) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "changes.yaml")
	if err := os.WriteFile(file, []byte(changes), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := binaries(t).Command(t.Context(), workDir, "preview", "--file", file, "--manifests", dir, "-o", "json")
	out, err := cmd.Output()
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatal(err)
	}
	if err != nil && cmd.ProcessState.ExitCode() != 3 { // 3 means that something is lost
		t.Fatalf("%v: %v", cmd, err)
	}
	return r
}
