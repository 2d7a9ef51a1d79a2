package console

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/clusterset/clusterset/cli/preview"
)

// Every kind of change can be composed on the page, and the page shows the same result as `clusterset preview`.
func TestWhatIf(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "it's a set") // the page quotes it for a shell
	if err := os.CopyFS(dir, os.DirFS("testdata/set")); err != nil {
		t.Fatal(err)
	}
	p := open(t, start(t, "--manifests", dir), "#/whatif")
	for _, c := range []struct {
		kind   string
		fields map[string]string
		change string
		sees   []string
	}{
		{"down", map[string]string{"cluster": "beijing-1"}, `[{"down": ["beijing-1"]}]`, []string{"payments/ledger lost 11 places"}},
		{"drain", map[string]string{"cluster": "beijing-1"}, `[{"drain": ["beijing-1"]}]`, []string{"payments/ledger last resort"}},
		{"undrain", map[string]string{"cluster": "tianjin"}, `[{"undrain": ["tianjin"]}]`, []string{"undrain tianjin"}},
		{"leave", map[string]string{"cluster": "beijing-1"}, `[{"leave": ["beijing-1"]}]`, []string{"leave beijing-1", "payments/ledger lost"}},
		{
			"place",
			map[string]string{"cluster": "xiamen", "zones": "cn-east-1a, cn-east-1b", "region": "cn-east"},
			`[{"place": {"cluster": "xiamen", "zones": ["cn-east-1a", "cn-east-1b"], "region": "cn-east"}}]`,
			[]string{"place xiamen zone cn-east-1a, cn-east-1b region cn-east"},
		},
		{
			"policy",
			map[string]string{"service": "shop/checkout", "prefer": "none", "minReady": "3"},
			`[{"policy": {"service": "shop/checkout", "prefer": "none", "minReady": 3}}]`,
			[]string{"policy shop/checkout prefer none min-ready 3"},
		},
		{
			"unreachable",
			map[string]string{"cluster": "beijing-1", "from": "shanghai-1, shanghai-2"},
			`[{"unreachable": {"clusters": ["beijing-1"], "from": ["shanghai-1", "shanghai-2"]}}]`,
			[]string{"unreachable beijing-1 from shanghai-1, shanghai-2"},
		},
		{"unexport", map[string]string{"service": "payments/ledger", "cluster": "beijing-1"}, `[{"unexport": {"service": "payments/ledger", "from": "beijing-1"}}]`, []string{"1 lost"}},
	} {
		t.Run(c.kind, func(t *testing.T) {
			p.goTo("#/whatif")
			p.until(`!document.querySelector(".chip")`)
			p.goTo("#/whatif?kind=" + c.kind)
			p.until(`document.querySelector(".builder [aria-pressed=true]")?.innerText.trim() === ` + quote(c.kind))
			for name, value := range c.fields {
				p.fill("input[name="+name+"]", value)
			}
			p.click("button", "Add the change")
			want := previewed(t, "clusterset preview --manifests testdata/set --file - <<'EOF'\n"+c.change+"\nEOF")
			p.until(`document.querySelector("#result")?.innerText === ` + quote(want.Summary.Text))
			p.sees(c.sees...)
			p.until(`document.querySelectorAll(".changes .rows .row").length === ` + strconv.Itoa(len(want.Services)))
			if got := p.pasted(); got.Summary.Text != want.Summary.Text {
				t.Errorf("the command that the page shows says %q, the page %q", got.Summary.Text, want.Summary.Text)
			}
		})
	}

	// Changes add up, every view shows them, and each can be taken back.
	p.goTo("#/whatif?if=down+beijing-1&if=drain+shanghai-1")
	p.sees("down beijing-1", "drain shanghai-1")
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
	p.click(".chip a", "Take back: down beijing-1")
	p.seesNot("down beijing-1")
	p.sees("drain shanghai-1")
	p.click(".whatifbar a", "Clear")
	p.seesNot("drain shanghai-1")

	// The page reports changes that are impossible.
	p.mayFail() // the browser logs each 400
	p.goTo("#/whatif?if=drain+nowhere")
	p.until(`document.querySelector(".whatifbar [role=alert]")?.innerText.includes("there is no cluster nowhere; there are")`)
	p.goTo("#/map?if=bogus")
	p.until(`!!document.querySelector(".whatifbar [role=alert]")`)
	p.accessible()
}

// A name with a typo stays in its field, with what was probably meant. One of an address is taken back by itself.
func TestWhatIfWithATypo(t *testing.T) {
	p := open(t, theSet(t), "#/whatif?kind=drain")
	p.mayFail() // the browser logs each 400
	p.fill("input[name=cluster]", "beijng-1")
	p.click("button", "Add the change")
	p.sees("Not added: there is no cluster beijng-1; did you mean beijing-1?")
	p.until(`!document.querySelector(".chip") && document.querySelector("input[name=cluster]").value === "beijng-1"`)
	p.accessible()
	p.fill("input[name=cluster]", "beijing-1")
	p.click("button", "Add the change")
	p.sees("drain beijing-1", "of 14 services")
	p.seesNot("Not added")

	p.goTo("#/whatif?if=drain+beijng-1+beijing-1&if=down+shanghai-1")
	p.sees("there is no cluster beijng-1; did you mean beijing-1?")
	p.click(".chip a", "Take back: drain beijng-1")
	p.until(`[...document.querySelectorAll(".chip")].map((e) => e.innerText.trim()).join() === "drain beijing-1,down shanghai-1"`)
	p.sees("of 14 services")
	got := p.pasted()
	p.until(`document.querySelector("#result").innerText === ` + quote(got.Summary.Text))

	p.goTo("#/whatif?kind=policy&service=shop%2Fwebb")
	p.fill("input[name=prefer]", "none")
	p.click("button", "Add the change")
	p.sees("there is no exported service shop/webb; did you mean shop/web?")
}

// pasted returns what the command prints that the page shows for its changes, pasted into a shell, with -o json.
func (p *tab) pasted() preview.Result {
	p.Helper()
	p.until(`!!document.querySelector(".cli pre")`)
	return previewed(p, eval[string](p, `document.querySelector(".cli pre").innerText`))
}

// previewed returns the result of commands in a shell that preview changes.
func previewed(t testing.TB, commands string) (r preview.Result) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "clusterset() { program=$1; shift; \"$CLUSTERSET\" \"$program\" -o json \"$@\"; }\n"+commands)
	cmd.Env = append(os.Environ(), "CLUSTERSET="+clusterset(t).Path)
	out, err := cmd.Output()
	if wrong := json.Unmarshal(out, &r); wrong != nil || err != nil && cmd.ProcessState.ExitCode() != 3 { // 3 means that something is lost
		t.Fatalf("%v: %v, %v", cmd, err, wrong)
	}
	return r
}
