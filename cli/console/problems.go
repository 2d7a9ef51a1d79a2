package console

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/cli/doctor"
	"github.com/clusterset/clusterset/cli/view"
)

// maxProblems bounds the problems in an answer.
const maxProblems = 500

// Problems is the answer of /api/problems: all that is known to be wrong, the most urgent first.
type Problems struct {
	// Total and Urgent are the numbers of all. Items are the first of them: what `clusterset status` and `doctor` count.
	Total  int     `json:"total"`
	Urgent int     `json:"urgent"`
	Items  []Found `json:"items"`
	// Answered are services whose names are answered, and that need attention all the same, and Unchecked is what `clusterset doctor` couldn't check.
	// They aren't counted.
	Answered  []Found `json:"answered,omitempty"`
	Unchecked []Found `json:"unchecked,omitempty"`
}

// Found is a problem, as `clusterset status` has it, and in which source it was found.
type Found struct {
	Context string `json:"context"`
	Cluster string `json:"cluster,omitempty"`
	view.Problem
	// Urgent says that clients or the operator can be misled by it now.
	Urgent bool `json:"urgent,omitempty"`
	// Paste is what the cure says is to be pasted.
	Paste string `json:"paste,omitempty"`
	// Checked is when it was found, unless it follows from what the console has just read.
	Checked time.Time `json:"checked,omitzero"`
}

// later are the reasons of problems that aren't urgent: names are answered, or something was asked for that isn't done.
var later = map[string]bool{
	"Limited": true, "Invalid": true, "NotExtended": true, "NoEndpoints": true, "NotReached": true, view.MissingElsewhere: true,
	api.ReasonNoPeers: true,
}

// whatSource is a Problem's What for an API server that the console can't read, and whatDoctor that for a finding of `clusterset doctor`,
// whose Reason is the check.
const whatSource, whatDoctor = "Source", "Doctor"

// problems answers /api/problems.
func (s *Server) problems(context.Context, url.Values) (*Problems, error) {
	is := s.current()
	out := is.found(time.Now())
	order := map[bool]int{true: -1} // otherwise as found: what is the cause of others comes first
	slices.SortStableFunc(out.Items, func(a, b Found) int { return cmp.Compare(order[a.Urgent], order[b.Urgent]) })
	out.Total = len(out.Items)
	if out.Urgent = slices.IndexFunc(out.Items, func(f Found) bool { return !f.Urgent }); out.Urgent < 0 {
		out.Urgent = out.Total
	}
	for _, list := range []*[]Found{&out.Items, &out.Answered, &out.Unchecked} {
		*list = (*list)[:min(len(*list), maxProblems)]
	}
	return out, nil
}

// found returns all problems: of the sources, of the hub with its services, and what each member has of its own.
func (s *shown) found(now time.Time) *Problems {
	out := &Problems{Items: []Found{}}
	ofHub := map[view.Problem]bool{} // in whatever words
	for _, from := range s.sources {
		add := func(to *[]Found, problems []view.Problem) {
			for _, p := range problems {
				fact := view.Problem{Namespace: p.Namespace, Name: p.Name, Reason: p.Reason}
				if from.Role == RoleMember && ofHub[fact] {
					continue
				}
				ofHub[fact] = ofHub[fact] || from.Role != RoleMember
				*to = append(*to, Found{Context: from.Context, Cluster: from.Cluster, Problem: p, Urgent: to == &out.Items && !later[p.Reason]})
			}
		}
		if from.lost() {
			p := view.Problem{Name: from.name(), What: whatSource, Reason: string(from.State), Message: from.Error, Cure: "until then, what is shown of it is what it said last"}
			add(&out.Items, []view.Problem{p})
		}
		facts := s.facts(from, now)
		report := view.Build(*facts)
		add(&out.Items, report.All())
		add(&out.Answered, slices.Concat(report.Services.Conflicts, report.Services.LastResort))
		for _, finding := range s.findings(from, facts, report) {
			to := &out.Items
			if finding.Level == doctor.Skipped {
				to = &out.Unchecked
			}
			*to = append(*to, from.found(finding))
		}
	}
	return out
}

// facts are what is known of a source: of a member also what the hub says, once it has been read.
func (s *shown) facts(from *Source, now time.Time) *view.Facts {
	f := &view.Facts{Now: now, Hub: s.hub}
	if from.Role == RoleMember {
		f.Now, f.Local = from.asOf(now), from.Local
		if len(s.hub.Members) == 0 {
			f.Hub = nil
		}
	}
	return f
}

var (
	// elsewhereListed are the checks of the doctor whose findings aren't listed: something else reports the same (server, set), the console
	// doesn't read the agent's Secret (hub), or it knows no address of a DNS server (dns).
	elsewhereListed = []string{"server", "set", "hub", "dns"}
	// current are those made of what the console has just read: they are as old as everything else.
	current = []string{"pods", "location", "reach"}
)

// findings are those of the doctor in a source that nothing else reports. The report adds what else is wrong in a member.
func (s *shown) findings(from *Source, facts *view.Facts, report view.Report) []doctor.Finding {
	if from.Asked == nil {
		return nil
	}
	f := *from.Asked
	switch {
	case from.Local != nil:
		f.See(facts, report)
	case from.Role == RoleMember:
		f.SetErr = errors.New(cmp.Or(from.Error, "it hasn't been read"))
	}
	return slices.DeleteFunc(doctor.Diagnose(&f).Findings, func(f doctor.Finding) bool {
		return f.Level == doctor.OK || slices.Contains(elsewhereListed, f.Check)
	})
}

// found is a finding in a source as it is listed.
func (s *Source) found(finding doctor.Finding) Found {
	f := Found{Context: s.Context, Cluster: s.Cluster, Urgent: finding.Level == doctor.Problem}
	f.Name, f.What, f.Reason, f.Message = s.name(), whatDoctor, finding.Check, finding.Message
	f.Cure, f.Paste, _ = strings.Cut(finding.Cure, ":\n")
	f.Cure = strings.ReplaceAll(f.Cure, "\n", " ")
	if !slices.Contains(current, finding.Check) {
		f.Checked = s.Asked.Now
	}
	return f
}
