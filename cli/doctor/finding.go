package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/clusterset/clusterset/cli/screen"
)

// Level is the severity of a Finding.
type Level string

// The levels.
const (
	OK      Level = "ok"
	Skipped Level = "skipped" // could not be checked, or wasn't requested
	Problem Level = "problem"
)

// Finding is the result of a check.
type Finding struct {
	// Check names the check: one of ofServers or ofCluster.
	Check   string `json:"check"`
	Level   Level  `json:"level"`
	Message string `json:"message"`
	// Cure is what to do: a sentence, or several lines to paste.
	Cure string `json:"cure,omitempty"`
	// More is the address of the section about the check.
	More string `json:"more,omitempty"`
}

// sections is the page with a section for each check, named after the check ("What doctor checks").
const sections = "https://github.com/clusterset/clusterset/blob/main/docs/troubleshooting.md#"

// Diagnosis is what `clusterset doctor -o json` prints.
type Diagnosis struct {
	Findings []Finding `json:"findings"`
	Problems int       `json:"problems"`
}

type check struct {
	name string
	run  func(*Facts) []Finding
}

// ofServers and ofCluster are run in this order, so that a problem comes before those it causes. The latter need a Cluster that answers.
var (
	ofServers = []check{{"server", checkServers}, {"hub", checkHub}, {"crds", checkCRDs}, {"rights", checkRights}, {"clock", checkClocks}}
	ofCluster = []check{
		{"hub", checkCredentials},
		{"clusterdns", checkClusterDNS},
		{"nodelocaldns", checkNodeLocalDNS},
		{"dns", checkDNS},
		{"workloads", checkWorkloads},
		{"pods", checkPods},
		{"location", checkLocation},
		{"set", checkSet},
		{"reach", checkReach},
	}
)

// Diagnose runs every check.
func Diagnose(f *Facts) Diagnosis {
	var d Diagnosis
	checks := ofServers
	if f.Cluster != nil && f.Cluster.Err == nil {
		checks = slices.Concat(ofServers, ofCluster)
	}
	for _, check := range checks {
		for _, finding := range check.run(f) {
			if finding.Check = check.name; finding.Level == Problem {
				finding.More = sections + check.name
				d.Problems++
			}
			d.Findings = append(d.Findings, finding)
		}
	}
	slices.SortStableFunc(d.Findings, func(a, b Finding) int { return cmp.Compare(order(a.Level), order(b.Level)) })
	return d
}

func order(l Level) int { return slices.Index([]Level{Problem, Skipped, OK}, l) }

func ok(format string, args ...any) Finding {
	return Finding{Level: OK, Message: fmt.Sprintf(format, args...)}
}

func skipped(format string, args ...any) Finding {
	return Finding{Level: Skipped, Message: fmt.Sprintf(format, args...)}
}

func problem(message, cure string) Finding {
	return Finding{Level: Problem, Message: message, Cure: cure}
}

// Render returns the Diagnosis for a person: problems first, each with its cure and where to read more.
func Render(d Diagnosis, colours bool) string {
	w := &screen.Writer{Colours: colours}
	marks := map[Level]screen.Cell{
		OK: {Text: "ok       ", Colour: screen.Good}, Skipped: {Text: "skipped  ", Colour: screen.Faint}, Problem: {Text: "PROBLEM  ", Colour: screen.Bad},
	}
	for _, f := range d.Findings {
		w.Line(marks[f.Level], screen.Cell{Text: f.Check + ": ", Colour: screen.Head}, screen.Cell{Text: f.Message})
		arrow := "         → "
		for line := range strings.Lines(f.Cure) {
			w.Line(screen.Cell{Text: arrow + strings.TrimSuffix(line, "\n")})
			arrow = "           "
		}
		if f.More != "" {
			w.Line(screen.Cell{Text: "           " + f.More, Colour: screen.Faint})
		}
	}
	return w.String()
}
