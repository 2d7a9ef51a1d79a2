package doctor

import (
	"cmp"
	"slices"
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
	// Check names the check: server, crds, rights, clock, hub, clusterdns, nodelocaldns, searchpath, dns, express, pods, set, reach, lastresort,
	// extended, names.
	Check   string `json:"check"`
	Level   Level  `json:"level"`
	Message string `json:"message"`
	// Cure is what to do: a sentence, or several lines to paste.
	Cure string `json:"cure,omitempty"`
	// More is the address of the section about the check.
	More string `json:"more,omitempty"`
}

// sections is a page with a section for each check, named after the check.
const sections = "https://github.com/clusterset/clusterset/blob/main/docs/doctor.md#"

// Diagnosis is what `clusterset doctor -o json` prints.
type Diagnosis struct {
	Findings []Finding `json:"findings"`
	Problems int       `json:"problems"`
}

// ofServers and ofCluster are run in this order, so that a problem comes before those it causes. The latter need a Cluster.
var (
	ofServers = []func(*Facts) []Finding{checkServers, checkCRDs, checkRights, checkClocks}
	ofCluster = []func(*Facts) []Finding{
		checkCredentials, checkClusterDNS, checkNodeLocalDNS, checkSearchPath, checkDNS, checkExpress,
		checkPods, checkSet, checkReach, checkLastResort, checkExtended, checkNames,
	}
)

// Diagnose runs every check.
func Diagnose(f *Facts) Diagnosis {
	var d Diagnosis
	checks := ofServers
	if f.Cluster != nil {
		checks = slices.Concat(ofServers, ofCluster)
	}
	for _, check := range checks {
		d.Findings = append(d.Findings, check(f)...)
	}
	slices.SortStableFunc(d.Findings, func(a, b Finding) int { return cmp.Compare(order(a.Level), order(b.Level)) })
	for _, finding := range d.Findings {
		if finding.Level == Problem {
			d.Problems++
		}
	}
	return d
}

func order(l Level) int { return slices.Index([]Level{Problem, Skipped, OK}, l) }

func ok(check, message string) Finding { return Finding{Check: check, Level: OK, Message: message} }

func skipped(check, message string) Finding {
	return Finding{Check: check, Level: Skipped, Message: message}
}

func problem(check, message, cure string) Finding {
	return Finding{Check: check, Level: Problem, Message: message, Cure: cure, More: sections + check}
}
