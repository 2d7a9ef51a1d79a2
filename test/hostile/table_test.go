package hostile

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/clusterset/clusterset/test/fleettest"
	"github.com/clusterset/clusterset/test/page"
)

const (
	// tablePage is the page that publishes the tables.
	tablePage = "../../docs/security.md"
	// tableEnv names the page whose tables this run replaces.
	tableEnv = "CLUSTERSET_HOSTILE_TABLE"
)

var tableSection = page.Section{
	Begin: "<!-- stolen credentials: written by make hostile UPDATE=1 -->\n", End: "<!-- end of stolen credentials -->\n",
}

type table struct {
	small []int // peaks without anything of the thief's cluster
	large []int // peaks with Honest
	rows  []row
}

// inOrder returns Honest, with which the others are compared, and then Shapes.
func inOrder() []Shape { return slices.Concat([]Shape{Honest}, Shapes) }

type row struct {
	Shape
	written, refused, bytes int
	filled                  bool
	why                     string
	seen
}

func (t *table) add(s Shape, a *Attacker, seen seen) {
	if s.What == Honest.What {
		t.large = seen.peaks
	}
	t.rows = append(t.rows, row{s, a.Written, a.Refused, a.Bytes, a.Filled, a.Why, seen})
}

// String returns the tables in Markdown.
func (t *table) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "| what is written | what bounds it | the hub takes | another member's agent, peak | its DNS server | the hub process | the hub's API server | writes in another member | another cluster's change takes, at most |\n"+
		"|---|---|---|---|---|---|---|---|---|\n"+
		"| nothing | | | %d MiB | %d MiB | %d MiB | %d MiB | | |\n", t.small[0], t.small[1], t.small[2], t.small[3])
	for _, r := range t.rows {
		fmt.Fprintf(&b, "| %s | %s | %d objects or changes, %.1f MiB | %d MiB | %d MiB | %d MiB | %d MiB | %d | %.1f s |\n",
			r.What, r.Bound, r.written, float64(r.bytes)/(1<<20), r.peaks[0], r.peaks[1], r.peaks[2], r.peaks[3], r.writes, r.late.Seconds())
	}
	return b.String()
}

// print logs the tables.
func (t *table) print(test *testing.T) {
	test.Helper()
	test.Logf("what a stolen credential costs:\n%s", t)
	for _, r := range t.rows {
		test.Logf("%s: %d refused, the last one: %s", r.What, r.refused, r.why)
	}
}

// check fails the test if the hub didn't take what a shape has, or if others notice more than they may.
func (t *table) check(test *testing.T) {
	test.Helper()
	for _, r := range t.rows {
		if r.filled == r.Refused || r.written+r.refused == 0 {
			test.Errorf("%s: the hub took %d and refused %d, the last one: %s", r.What, r.written, r.refused, r.why)
		}
		t.checkMemory(test, r)
		if fleettest.Long && r.late > maxLate {
			test.Errorf("%s: another cluster's change takes %v", r.What, r.late.Round(time.Millisecond))
		}
	}
}

// checkMemory checks a row by rule C59 of docs/spec/control-plane.md. Only a run at length writes enough to compare rows with Honest.
func (t *table) checkMemory(test *testing.T, r row) {
	test.Helper()
	for i, p := range limits {
		if p.limit == 0 {
			continue
		}
		if r.peaks[i] > p.limit {
			test.Errorf("%s: the %s needs %d MiB, and the chart's limit is %d", r.What, p.name, r.peaks[i], p.limit)
		}
		if fleettest.Long && float64(r.peaks[i]) > maxMemory*float64(t.large[i]) {
			test.Errorf("%s: the %s needs %d MiB, %d with a large honest cluster", r.What, p.name, r.peaks[i], t.large[i])
		}
	}
}

// The page must have every shape and every loss, and nothing else. What was measured isn't compared.
func TestStolenCredentialsAreDocumented(t *testing.T) {
	documented, err := tableSection.Read(tablePage)
	if err != nil {
		t.Fatal(err)
	}
	want := &table{small: make([]int, len(limits))}
	for _, s := range inOrder() {
		want.rows = append(want.rows, row{Shape: s, seen: seen{peaks: make([]int, len(limits))}})
	}
	if is, should := named(documented), named(want.String()); is != should {
		t.Errorf("%s isn't up to date: run make hostile UPDATE=1. It says\n%s\nwant\n%s", tablePage, is, should)
	}
}

// named returns what isn't measured in tables: rows of four cells, and the first two of others.
func named(tables string) string {
	var b strings.Builder
	for line := range strings.Lines(tables) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		if len(cells) > 4 {
			cells = cells[:2]
		}
		if strings.HasPrefix(line, "| ") {
			fmt.Fprintln(&b, strings.Join(cells, " | "))
		}
	}
	return b.String()
}
