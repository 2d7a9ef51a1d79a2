package hostile

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/clusterset/clusterset/test/fleettest"
)

type table struct {
	before []int // peaks without a thief
	rows   []row
}

type row struct {
	Shape
	written, refused, bytes int
	why                     string
	seen
}

func (t *table) add(s Shape, a *Attacker, seen seen) {
	t.rows = append(t.rows, row{s, a.Written, a.Refused, a.Bytes, a.Why, seen})
}

// String returns the table in Markdown.
func (t *table) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "| what the thief writes | what bounds it | the hub takes | another member's agent, peak | its DNS server | the hub process | writes in another member | another cluster's change takes, at most |\n"+
		"|---|---|---|---|---|---|---|---|\n"+
		"| nothing | | | %d MiB | %d MiB | %d MiB | | |\n", t.before[0], t.before[1], t.before[2])
	for _, r := range t.rows {
		fmt.Fprintf(&b, "| %s | %s | %d objects or changes, %.1f MiB | %d MiB | %d MiB | %d MiB | %d | %.1f s |\n",
			r.What, r.Bound, r.written, float64(r.bytes)/(1<<20), r.peaks[0], r.peaks[1], r.peaks[2], r.writes, r.late.Seconds())
	}
	return b.String()
}

// print logs the table.
func (t *table) print(test *testing.T) {
	test.Helper()
	test.Logf("what a stolen credential costs:\n%s", t)
	for _, r := range t.rows {
		test.Logf("%s: %d refused, the last one: %s", r.What, r.refused, r.why)
	}
}

// check fails the test if a process of others comes near the chart's memory limit, if a shape tried nothing, or if others notice more than they
// may: of what is useless always, of the rest at length.
func (t *table) check(test *testing.T) {
	test.Helper()
	for _, r := range t.rows {
		for i, p := range limits {
			switch {
			case r.peaks[i] > p.limit:
				test.Errorf("%s: the %s needs %d MiB, and the chart's limit is %d", r.What, p.name, r.peaks[i], p.limit)
			case (fleettest.Long || r.Useless) && float64(r.peaks[i]) > maxMemory*float64(t.before[i]):
				test.Errorf("%s: the %s needs %d MiB, %d without", r.What, p.name, r.peaks[i], t.before[i])
			}
		}
		if fleettest.Long && r.late > maxLate {
			test.Errorf("%s: another cluster's change takes %v", r.What, r.late.Round(time.Millisecond))
		}
		if r.written+r.refused == 0 {
			test.Errorf("%s: nothing was tried", r.What)
		}
	}
}
