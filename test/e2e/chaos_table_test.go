package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// chaosTable gathers what a run did, for docs/reliability.md.
type chaosTable struct {
	seed uint64
	rows []*chaosRow
}

// chaosRow is one fault, over all times it was injected.
type chaosRow struct {
	fault     fault
	times     int
	lasted    time.Duration
	recovered time.Duration // the longest
	counts    probeCounts
}

// newChaosTable returns a table that is printed when the test ends.
func newChaosTable(t *testing.T, seed uint64) *chaosTable {
	t.Helper()
	table := &chaosTable{seed: seed}
	t.Cleanup(func() { t.Logf("what was done and seen:\n%s", table) })
	return table
}

func (t *chaosTable) add(f fault, _ string, lasted, recovered time.Duration, counts probeCounts) {
	i := slices.IndexFunc(t.rows, func(r *chaosRow) bool { return r.fault.String() == f.String() })
	if i < 0 {
		i = len(t.rows)
		t.rows = append(t.rows, &chaosRow{fault: f})
	}
	r := t.rows[i]
	r.times++
	r.lasted += lasted
	r.recovered = max(r.recovered, recovered)
	r.counts.add(counts)
}

// String is the table in Markdown.
func (t *chaosTable) String() string {
	var b strings.Builder
	b.WriteString("| what | fault | times | questions | wrong | missing | late | promised, and seen |\n|---|---|---|---|---|---|---|---|\n")
	for _, r := range t.rows {
		fmt.Fprintf(&b, "| %s | %s | %d | %d | %d | %d | %d | %s |\n",
			r.fault.group, r.fault.name, r.times, r.counts.asked, r.counts.wrong, r.counts.missing, r.counts.late, r.fault.promise)
	}
	return b.String()
}
