package chaos

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/clusterset/clusterset/test/page"
)

// tablePage is the page that publishes the table of faults.
const tablePage = "../../docs/reliability.md"

// separator is between the faults of a row.
const separator = "<br>"

var tableSection = page.Section{Begin: "<!-- faults: written by make chaos -->\n", End: "<!-- end of faults -->\n"}

// table collects the results of a run, by fault.
type table map[string]*row

// row is one fault, summed over all its injections.
type row struct {
	lasted    time.Duration // the sum
	recovered time.Duration // the longest
	counts    probeCounts
}

func (r *row) add(o row) {
	r.lasted += o.lasted
	r.recovered = max(r.recovered, o.recovered)
	r.counts.add(o.counts)
}

// newTable returns a table that is printed when the test ends, and written to a page if tableEnv names one.
func newTable(t *testing.T, seed uint64) table {
	t.Helper()
	table := table{}
	t.Cleanup(func() {
		if len(table) == 0 {
			return
		}
		t.Logf("what was done and seen:\n%s", table.published())
		if path := os.Getenv(tableEnv); path != "" {
			if err := tableSection.Replace(path, fmt.Sprintf("\nSeed %d.\n\n%s\n", seed, table.published())); err != nil {
				t.Error(err)
			}
		}
	})
	return table
}

func (t table) add(f fault, injected row) {
	if t[f.String()] == nil {
		t[f.String()] = &row{}
	}
	t[f.String()].add(injected)
}

// published returns the page's table: a row for each promise, with all its faults.
func (t table) published() string {
	var promises []string
	sums, names := map[string]*row{}, map[string][]string{}
	all := &row{}
	for _, f := range allFaults() {
		seen := t[f.String()]
		if seen == nil {
			continue
		}
		if sums[f.promise] == nil {
			promises = append(promises, f.promise)
			sums[f.promise] = &row{}
		}
		names[f.promise] = append(names[f.promise], f.String())
		sums[f.promise].add(*seen)
		all.add(*seen)
	}
	var b strings.Builder
	b.WriteString("| promised, and seen | faults | seconds of them | all right after, at most | questions | unanswered | wrong / missing / late |\n" +
		"|---|---|---|---|---|---|---|\n")
	line := func(promise string, faults []string, r *row) {
		fmt.Fprintf(&b, "| %s | %s | %.0f | %.1f s | %d | %d | %s |\n", promise, strings.Join(faults, separator),
			r.lasted.Seconds(), r.recovered.Seconds(), r.counts.asked, r.counts.unanswered, r.counts)
	}
	for _, promise := range promises {
		line(promise, names[promise], sums[promise])
	}
	line("**all**", nil, all)
	return b.String()
}

// String returns how many answers were wrong, missing and late.
func (c probeCounts) String() string { return fmt.Sprintf("%d / %d / %d", c.wrong, c.missing, c.late) }

// The page must list every fault and nothing else.
func TestFaultsAreDocumented(t *testing.T) {
	table, err := tableSection.Read(tablePage)
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	for line := range strings.Lines(table) {
		cells := strings.Split(line, " | ")
		if len(cells) < 7 || strings.HasPrefix(line, "| promised") || strings.HasPrefix(line, "| **all**") {
			continue
		}
		for _, name := range strings.Split(cells[1], separator) {
			documented[name] = true
		}
	}
	for _, f := range allFaults() {
		if !documented[f.String()] {
			t.Errorf("%s lacks the fault %q: run make chaos", tablePage, f)
		}
		delete(documented, f.String())
	}
	for name := range documented {
		t.Errorf("%s tells of %q, which is no fault: run make chaos", tablePage, name)
	}
}
