package console

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/doctor"
	"github.com/clusterset/clusterset/cli/preview"
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
func (s *Server) problems(context.Context, query) (*Problems, error) {
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
	known := map[view.Problem]bool{} // in whatever words
	add := func(to *[]Found, from *Source, problems []view.Problem) {
		for _, p := range problems {
			fact := view.Problem{Namespace: p.Namespace, Name: p.Name, Reason: p.Reason}
			if from.Role == RoleMember && known[fact] {
				continue
			}
			known[fact] = known[fact] || from.Role != RoleMember
			*to = append(*to, Found{Context: from.Context, Cluster: from.Cluster, Problem: p, Urgent: to == &out.Items && !later[p.Reason]})
		}
	}
	for _, from := range s.sources {
		if from.lost() {
			p := view.Problem{Name: from.name(), What: whatSource, Reason: string(from.State), Message: from.Error, Cure: "until then, what is shown of it is what it said last"}
			add(&out.Items, from, []view.Problem{p})
		}
	}
	hub, records := s.hub(), s.records(now)
	set := view.Build(view.Facts{Now: now, Hub: records})
	add(&out.Items, hub, append(set.All(), s.elsewhere(records)...))
	add(&out.Answered, hub, slices.Concat(set.Services.Conflicts, set.Services.LastResort))
	for _, from := range s.sources {
		var own view.Report
		facts := s.ofMember(from, records, now)
		if facts != nil {
			own = view.Build(*facts)
			own.Elsewhere = nil // which the hub knows for all
		}
		add(&out.Items, from, own.All())
		add(&out.Answered, from, slices.Concat(own.Services.Conflicts, own.Services.LastResort))
		for _, finding := range s.findings(from, facts, own) {
			to := &out.Items
			if finding.Level == doctor.Skipped {
				to = &out.Unchecked
			}
			*to = append(*to, from.found(finding))
		}
	}
	return out
}

// ofMember is what is known of a member, nil if nothing is.
func (s *shown) ofMember(from *Source, records *view.HubFacts, now time.Time) *view.Facts {
	if from.Local == nil {
		return nil
	}
	facts := &view.Facts{Now: from.asOf(now), Local: from.Local}
	if s.hub().Role == RoleHub && len(s.set.members) > 0 {
		facts.Hub = &view.HubFacts{Read: records.Read, Members: records.Members, Heard: records.Heard}
		for _, key := range s.set.keys { // of services whose namespaces it doesn't have
			if from.Local.Namespaces != nil && !from.Local.Namespaces[key.Namespace] {
				for _, r := range s.set.state.Records(key) {
					facts.Hub.Exports = append(facts.Hub.Exports, *r)
				}
			}
		}
	}
	return facts
}

// records are what the hub has, without the exports: what they amount to is known from the set.
func (s *shown) records(now time.Time) *view.HubFacts {
	f := &view.HubFacts{Read: s.hub().asOf(now), Heard: s.heard, Process: s.process, Services: map[types.NamespacedName]*preview.Exported{}}
	for _, key := range s.set.keys {
		if i := s.set.items[key]; len(i.Conflicts) > 0 || i.Ready == 0 { // others need no attention
			f.Services[key] = s.set.state.Exported(key)
		}
	}
	for _, m := range s.set.members {
		f.Members = append(f.Members, *m)
	}
	return f
}

// elsewhere are the namespaces that clusters lack by their last reports.
func (s *shown) elsewhere(records *view.HubFacts) []view.Problem {
	var exports []*clustersetv1alpha1.ExportedService
	for _, key := range s.set.keys {
		exports = append(exports, s.set.state.Records(key)...)
	}
	var known []string
	for _, from := range s.sources {
		if from.Local != nil && from.Local.Namespaces != nil {
			known = append(known, from.Cluster)
		}
	}
	return records.Elsewhere(exports, known, records.Read)
}

var (
	// elsewhereListed are the checks of the doctor whose findings aren't listed: something else reports the same (server, set), the console
	// doesn't read the agent's Secret (hub), or they take a pod's file or the address of a DNS server (the others).
	elsewhereListed = []string{"server", "set", "hub", "dns"}
	// current are those made of what the console has just read: they are as old as everything else.
	current = []string{"pods", "location", "reach"}
)

// findings are those of the doctor in a member, or on the hub if facts is nil, that nothing else reports. set adds what else is wrong in a member.
func (s *shown) findings(from *Source, facts *view.Facts, set view.Report) []doctor.Finding {
	if from.Asked == nil {
		return nil
	}
	f := *from.Asked
	switch {
	case from.Role == RoleMember && facts != nil:
		f.See(facts, set)
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
