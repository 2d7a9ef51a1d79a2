package console

import (
	"cmp"
	"context"
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
	// Total and Urgent are the numbers of all. Items are the first of them: what `clusterset status` and `doctor` count.
	Total  int     `json:"total"`
	Urgent int     `json:"urgent"`
	Items  []Found `json:"items"`
	// Answered are services whose names are answered, and that need attention all the same, and Unchecked is what `clusterset doctor` couldn't check.
	// They aren't counted.
	Answered  []Found `json:"answered,omitempty"`
	Unchecked []Found `json:"unchecked,omitempty"`
}

// Found is a problem, and where it was found.
type Found struct {
	Problem
	// Urgent says that clients or the operator can be misled by it now.
	Urgent bool `json:"urgent,omitempty"`
	// Commands cure it, or show more.
	Commands []string `json:"commands,omitempty"`
	// Clusters are all for which the same couldn't be checked, if there are several.
	Clusters []string `json:"clusters,omitempty"`
	// Checked is when it was found, unless it follows from what the console has just read.
	Checked time.Time `json:"checked,omitzero"`
}

// later are the reasons of problems that aren't urgent: names are answered, or something was asked for that isn't done.
var later = map[string]bool{
	"Limited": true, "Invalid": true, "NotExtended": true, "NoEndpoints": true, "NotReached": true, view.MissingElsewhere: true,
	api.ReasonNoPeers: true,
}

// problems answers /api/problems.
func (s *Server) problems(context.Context, query) (any, error) {
	is := s.current()
	out := &Problems{}
	out.Items, out.Answered, out.Unchecked = is.found(s.options.Flags, time.Now())
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
	out.Answered, out.Unchecked = out.Answered[:min(len(out.Answered), maxProblems)], out.Unchecked[:min(len(out.Unchecked), maxProblems)]
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

// found returns all problems: of the sources, of the hub with its services, and what each member has of its own. answered are services that need
// attention and are none, and unchecked is what the doctor couldn't check.
func (s *shown) found(flags Flags, now time.Time) (all, answered, unchecked []Found) {
	all = []Found{}
	found := func(from *Source, urgent bool, problems []view.Problem) (list []Found) {
		for _, p := range problems {
			f := Found{Problem: Problem{Context: from.Context, Cluster: from.Cluster, Problem: p}, Urgent: urgent && !later[p.Reason]}
			f.Commands = s.commands(flags, from, &p)
			list = append(list, f)
		}
		return list
	}
	hub := s.hub()
	for _, from := range s.sources {
		if from.lost() {
			all = append(all, found(from, true, []view.Problem{{Name: from.name(), What: whatSource, Reason: string(from.State), Message: from.Error, Cure: "until then, what is shown of it is what it said last"}})...)
		}
	}
	records := s.records(now)
	set := view.Build(view.Facts{Now: now, Hub: records})
	known := map[view.Problem]bool{} // in whatever words
	fact := func(p view.Problem) view.Problem {
		return view.Problem{Namespace: p.Namespace, Name: p.Name, Reason: p.Reason}
	}
	isNew := func(problems []view.Problem) []view.Problem {
		return slices.DeleteFunc(problems, func(p view.Problem) bool { return known[fact(p)] })
	}
	all = append(append(all, found(hub, true, set.All())...), found(hub, false, s.elsewhere(records))...)
	answered = found(hub, false, slices.Concat(set.Services.Conflicts, set.Services.LastResort))
	for _, p := range slices.Concat(set.All(), set.Services.Conflicts, set.Services.LastResort) {
		known[fact(p)] = true
	}
	for _, from := range s.sources {
		facts, own := s.ofMember(from, records, now)
		problems, couldNot := s.findings(flags, from, facts, own)
		if own != nil {
			own.Elsewhere = nil // which the hub knows for all
			all = append(all, found(from, true, isNew(own.All()))...)
			answered = append(answered, found(from, false, isNew(slices.Concat(own.Services.Conflicts, own.Services.LastResort)))...)
		}
		all = append(all, problems...)
		for _, f := range couldNot {
			unchecked = alike(unchecked, f)
		}
	}
	return all, answered, unchecked
}

// alike adds what couldn't be checked. The same of several clusters is one.
func alike(all []Found, f Found) []Found {
	at := slices.IndexFunc(all, func(o Found) bool { return o.Reason == f.Reason && o.Message == f.Message })
	if at < 0 {
		return append(all, f)
	}
	if all[at].Clusters == nil {
		all[at].Clusters = []string{all[at].Name}
	}
	all[at].Clusters = append(all[at].Clusters, f.Name)
	return all
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

// records are what the hub has, without the exports: what they amount to is known from the set.
func (s *shown) records(now time.Time) *view.HubFacts {
	f := &view.HubFacts{Read: s.hub().asOf(now), Heard: s.heard, Process: s.process, Services: map[types.NamespacedName]*preview.Exported{}}
	for _, key := range s.set.keys {
		if i := s.set.items[key]; i.Conflicts > 0 || i.Ready == 0 { // others need no attention
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
