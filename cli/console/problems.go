package console

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/preview"
	"github.com/clusterset/clusterset/cli/view"
)

// maxProblems bounds the problems in an answer.
const maxProblems = 500

// Problems is the answer of /api/problems: all that is known to be wrong, the most urgent first.
type Problems struct {
	// Total and Urgent are the numbers of all. Items are the first of them.
	Total  int     `json:"total"`
	Urgent int     `json:"urgent"`
	Items  []Found `json:"items"`
	// Unchecked is what `clusterset doctor` couldn't check. It isn't counted.
	Unchecked []Found `json:"unchecked,omitempty"`
}

// Found is a problem, and where it was found.
type Found struct {
	Problem
	// Urgent says that clients or the operator can be misled by it now.
	Urgent bool `json:"urgent,omitempty"`
	// Commands cure it, or show more.
	Commands []string `json:"commands,omitempty"`
	// Checked is when it was found, unless it follows from what the console has just read.
	Checked time.Time `json:"checked,omitzero"`
}

// later are the reasons of problems that aren't urgent: names are answered, or something was asked for that isn't done.
var later = map[string]bool{
	"Limited": true, "Invalid": true, "NotExtended": true, "NoEndpoints": true, "NotReached": true, "SilentOnly": true, view.MissingElsewhere: true,
	api.ReasonNoPeers: true,
}

// problems answers /api/problems.
func (s *Server) problems(context.Context, query) (any, error) {
	is := s.current()
	out := &Problems{}
	out.Items, out.Unchecked = is.found(s.options.Flags, time.Now())
	for i := range out.Items {
		if out.Items[i].Urgent {
			out.Urgent++
		}
	}
	slices.SortStableFunc(out.Items, func(a, b Found) int {
		if a.Urgent != b.Urgent {
			return map[bool]int{true: -1, false: 1}[a.Urgent]
		}
		return cmp.Or(cmp.Compare(rank(a.What), rank(b.What)), cmp.Compare(a.About(), b.About()), cmp.Compare(a.Cluster, b.Cluster))
	})
	out.Total = len(out.Items)
	out.Items = out.Items[:min(len(out.Items), maxProblems)]
	out.Unchecked = out.Unchecked[:min(len(out.Unchecked), maxProblems)]
	return out, nil
}

// whatSource is a Problem's What for an API server that the console can't read.
const whatSource = "Source"

// rank orders problems: what is the cause of others comes first.
func rank(what string) int {
	at := slices.Index([]string{whatSource, "Hub", whatDoctor, "MemberCluster", "Namespace"}, what)
	if at < 0 {
		return 5
	}
	return at
}

// hub is the source of the records.
func (s *shown) hub() *Source {
	for _, from := range s.sources {
		if from.Role != RoleMember {
			return from
		}
	}
	return &Source{}
}

// found returns all problems: of the sources, of the hub, of the services, and what each member has of its own. unchecked is what the doctor
// couldn't check.
func (s *shown) found(flags Flags, now time.Time) (all, unchecked []Found) {
	all = []Found{}
	add := func(from *Source, urgent bool, problems ...view.Problem) {
		for _, p := range problems {
			f := Found{Problem: Problem{Context: from.Context, Cluster: from.Cluster, Problem: p}, Urgent: urgent && !later[p.Reason]}
			f.Commands = s.commands(flags, from, &p)
			all = append(all, f)
		}
	}
	hub := s.hub()
	for _, from := range s.sources {
		if from.lost() {
			add(from, true, view.Problem{Name: from.name(), What: whatSource, Reason: string(from.State), Message: from.Error, Cure: "until then, what is shown of it is what it said last"})
		}
	}
	records := s.records(now)
	set := view.Build(view.Facts{Now: now, Hub: records})
	add(hub, true, set.Problems...)
	add(hub, false, s.elsewhere(records.Members)...)
	for _, key := range s.set.keys {
		add(hub, false, s.ofService(key)...)
	}
	known := map[view.Problem]bool{}
	for _, p := range set.Problems {
		known[p] = true
	}
	for _, from := range s.sources {
		facts, own := s.ofMember(from, records, now)
		problems, couldNot := s.findings(flags, from, facts, own)
		if own != nil {
			add(from, true, slices.DeleteFunc(own.Problems, func(p view.Problem) bool { return known[p] })...)
			add(from, true, slices.DeleteFunc(own.Services.Problems, func(p view.Problem) bool { return caused(p, problems) })...)
			add(from, false, own.Services.LastResort...)
		}
		all, unchecked = append(all, problems...), append(unchecked, couldNot...)
	}
	return all, unchecked
}

// ofMember is what is known of a member and the Report of that, nil if nothing is.
func (s *shown) ofMember(from *Source, records *view.HubFacts, now time.Time) (*view.Facts, *view.Report) {
	if from.Local == nil {
		return nil, nil
	}
	facts := view.Facts{Now: from.asOf(now), Local: from.Local}
	if s.hub().Role == RoleHub && len(s.set.members) > 0 {
		facts.Hub = &view.HubFacts{Read: records.Read, Members: records.Members, Heard: records.Heard, Exports: s.without(from.Local.Namespaces)}
	}
	report := view.Build(facts)
	return &facts, &report
}

// records are what the hub has, without the exports: their conflicts are known from the set.
func (s *shown) records(now time.Time) *view.HubFacts {
	f := &view.HubFacts{Read: s.hub().asOf(now), Heard: s.heard, Process: s.process}
	for _, m := range s.set.members {
		f.Members = append(f.Members, *m)
	}
	return f
}

// elsewhere are the namespaces that clusters lack by their last reports.
func (s *shown) elsewhere(members []clustersetv1alpha1.MemberCluster) []view.Problem {
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
	return view.Elsewhere(members, exports, known)
}

// without returns the exports of services whose namespaces a cluster doesn't have.
func (s *shown) without(namespaces map[string]bool) (all []clustersetv1alpha1.ExportedService) {
	for _, key := range s.set.keys {
		if namespaces != nil && !namespaces[key.Namespace] {
			for _, r := range s.set.state.Records(key) {
				all = append(all, *r)
			}
		}
	}
	return all
}

// ofService are the problems of a service that the hub's records show.
func (s *shown) ofService(key types.NamespacedName) (all []view.Problem) {
	i := s.set.items[key]
	p := view.Problem{Namespace: key.Namespace, Name: key.Name, What: "Exports"}
	if i.Conflicts > 0 {
		for _, c := range s.set.state.Exported(key).Conflicts {
			conflict := preview.ConflictOf(&c)
			p.Reason, p.Message, p.Cure = conflict.Reason, conflict.Message, "make the exports alike; until then the oldest one decides"
			all = append(all, p)
		}
	}
	switch {
	case i.Ready == 0 && i.Silent == 0:
		p.Reason, p.Message, p.Cure = "NoEndpoints", "no cluster that is used has a ready endpoint", "start its pods, or end its exports"
	case i.Ready == 0:
		p.Reason, p.Message, p.Cure = "SilentOnly", fmt.Sprintf("its %d ready endpoints are in Suspect clusters", i.Silent), "see why these are silent, or start pods elsewhere"
	default:
		return all
	}
	return append(all, p)
}

// commands cure a problem, or show more about it.
func (s *shown) commands(flags Flags, from *Source, p *view.Problem) []string {
	hub := kubectl(flags.Hub)
	member := func(context string) []string { return append(slices.Clone(flags.Members), "--context", context) }
	at := from.Context
	if from.Role != RoleMember {
		at = s.contextOf(p.Name)
	}
	switch {
	case p.What == whatSource && from.Role == RoleMember:
		return []string{line(append([]string{"kubectl", "get", "--raw", "/readyz"}, member(from.Context)...)...)}
	case p.What == whatSource && hub != nil:
		return []string{line(append([]string{"kubectl", "get", "--raw", "/readyz"}, hub...)...)}
	case p.Reason == view.MissingElsewhere, p.Reason == "Held": // the console doesn't read these clusters, and the ServiceExport is gone
		return nil
	case p.What == "Namespace":
		return []string{line(append([]string{"kubectl", "create", "namespace", p.Name}, member(at)...)...)}
	case strings.HasPrefix(p.Cure, "clusterset join "+p.Name+" --rejoin") && hub != nil && at != "":
		return []string{line(slices.Concat([]string{"clusterset", "join", p.Name, "--rejoin"}, member(at), flags.Hub)...)}
	case p.What == "MemberCluster" && at != "":
		return []string{line(append([]string{"clusterset", "doctor"}, member(at)...)...)}
	case p.What == "MemberCluster" && hub != nil:
		return []string{line(append([]string{"kubectl", "describe", "membercluster", p.Name}, hub...)...)}
	case p.What == "Hub" && hub != nil:
		return []string{line(append([]string{"kubectl", "get", "memberclusters"}, hub...)...)}
	case p.What == "Exports" && hub != nil:
		return []string{line(append([]string{"clusterset", "services", "--namespace", p.Namespace}, flags.Hub...)...)}
	case p.Namespace != "" && from.Role == RoleMember:
		return []string{line(append([]string{"kubectl", "describe", strings.ToLower(p.What), p.Name, "--namespace", p.Namespace}, member(at)...)...)}
	}
	return nil
}

// kubectl turns the flags that lead to the hub into those of kubectl.
func kubectl(hub []string) (words []string) {
	for _, w := range hub {
		words = append(words, strings.Replace(w, "--hub-", "--", 1))
	}
	return words
}

// contextOf returns the context of a cluster, or "" if the console doesn't read it.
func (s *shown) contextOf(cluster string) string {
	for _, from := range s.sources {
		if from.Role == RoleMember && from.Cluster == cluster && cluster != "" {
			return from.Context
		}
	}
	return ""
}
