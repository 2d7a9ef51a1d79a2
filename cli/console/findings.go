package console

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/clusterset/clusterset/cli/doctor"
	"github.com/clusterset/clusterset/cli/view"
)

// whatDoctor is a Problem's What for a finding of `clusterset doctor`. Its Reason is the check.
const whatDoctor = "Doctor"

// overlap decides which of two problems is listed if the doctor and something else report the same fact.
var overlap = struct {
	// here are the checks whose findings aren't listed.
	here map[string]string
	// current are those made of what the console has just read: they are as old as everything else.
	current map[string]bool
}{
	here: map[string]string{
		"server": "a Source that doesn't answer is a problem of its own",
		"set":    "the same Reports",
		"hub":    "the agent's token is in a Secret, which the console doesn't read",
		"dns":    "takes the address of a DNS server",
	},
	current: map[string]bool{"pods": true, "location": true, "reach": true},
}

// findings are those of the doctor in a member, or on the hub if facts is nil, that nothing else reports. unchecked says what it couldn't
// check. found adds what else is wrong in a member: set.
func (s *shown) findings(flags Flags, from *Source, facts *view.Facts, set *view.Report) (problems, unchecked []Found) {
	if from.Asked == nil {
		return nil, nil
	}
	f := *from.Asked
	switch {
	case from.Role == RoleMember && facts != nil:
		f.See(facts, *set)
	case from.Role == RoleMember:
		f.SetErr = errors.New(cmp.Or(from.Error, "it hasn't been read"))
	}
	var ofHub []doctor.Finding
	if hub := s.hub(); from != hub && hub.Asked != nil {
		f.Hub = hub.Asked.Hub // to compare the clocks
		ofHub = doctor.Diagnose(hub.Asked).Findings
	}
	for _, finding := range doctor.Diagnose(&f).Findings {
		switch {
		case finding.Level == doctor.OK || overlap.here[finding.Check] != "" || slices.Contains(ofHub, finding):
		case finding.Level == doctor.Skipped:
			unchecked = append(unchecked, foundBy(flags, from, finding))
		default:
			problems = append(problems, foundBy(flags, from, finding))
		}
	}
	return problems, unchecked
}

// foundBy is a finding as it is listed. A cure that ends with lines to paste has them as a command.
func foundBy(flags Flags, from *Source, finding doctor.Finding) Found {
	p := view.Problem{Name: from.name(), What: whatDoctor, Reason: finding.Check, Message: finding.Message}
	f := Found{Urgent: finding.Level == doctor.Problem}
	cure, lines, paste := strings.Cut(finding.Cure, ":\n")
	if p.Cure = strings.ReplaceAll(cure, "\n", " "); paste {
		f.Commands = append(f.Commands, lines)
	}
	words := []string{"clusterset", "doctor"}
	if from.Role == RoleMember {
		words = append(append(words, flags.Members...), "--context", from.Context)
	}
	f.Commands = append(f.Commands, line(append(words, flags.Hub...)...))
	if !overlap.current[finding.Check] {
		f.Checked = from.Asked.Now
	}
	f.Problem = Problem{Context: from.Context, Cluster: from.Cluster, Problem: p}
	return f
}
