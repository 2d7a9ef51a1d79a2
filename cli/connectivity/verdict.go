package connectivity

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/clusterset/clusterset/cli/screen"
)

// Kind is what a question is about.
type Kind string

// The kinds.
const (
	Name         Kind = "Name"         // the name has the ClusterSetIP of the cluster that asks
	ClusterSetIP Kind = "ClusterSetIP" // that address leads to the exporting cluster
	Headless     Kind = "Headless"     // the name of a headless service has the pods' addresses, and they answer
	OwnName      Kind = "OwnName"      // a Service without a pod leads to the exporting cluster by its own name
)

var kinds = []Kind{Name, ClusterSetIP, Headless, OwnName}

// Report is what `clusterset test -o json` prints. Fields are only ever added.
type Report struct {
	Namespace string `json:"namespace"`
	Pairs     []Pair `json:"pairs"`
	// Problems are what doesn't work, each once, those that cause others first.
	Problems []Problem `json:"problems,omitempty"`
	// Notes are what the set doesn't offer, and isn't expected to.
	Notes []string `json:"notes,omitempty"`
}

// Pair is what a cluster's pods found out about a cluster's services.
type Pair struct {
	From     string   `json:"from"`
	To       string   `json:"to"`
	Checks   []Answer `json:"checks,omitempty"`
	NotTried string   `json:"notTried,omitempty"`
}

// Problem is something that doesn't work, and what to do about it.
type Problem struct {
	Message string `json:"message"`
	Cure    string `json:"cure,omitempty"`
}

// Judge says what works between the clusters, and why the rest doesn't.
func Judge(all []*Facts, namespace, zone string) Report {
	j := judge{all: all, namespace: namespace, zone: zone, report: Report{Namespace: namespace}, broken: map[string]string{}}
	for _, f := range all {
		j.cluster(f)
	}
	for _, from := range all {
		j.from(from)
	}
	return j.report
}

type judge struct {
	all             []*Facts
	namespace, zone string
	report          Report
	// broken has why nothing can be asked of a cluster.
	broken map[string]string
}

func (j *judge) problem(cure, format string, args ...any) {
	p := Problem{Message: fmt.Sprintf(format, args...), Cure: cure}
	if !slices.Contains(j.report.Problems, p) {
		j.report.Problems = append(j.report.Problems, p)
	}
}

func (j *judge) note(format string, args ...any) {
	if n := fmt.Sprintf(format, args...); !slices.Contains(j.report.Notes, n) {
		j.report.Notes = append(j.report.Notes, n)
	}
}

func (j *judge) kubectl(f *Facts, format string, args ...any) string {
	return "kubectl --context " + f.Context + " " + fmt.Sprintf(format, args...)
}

// cluster finds what keeps a cluster from being asked.
func (j *judge) cluster(f *Facts) {
	service, headless := f.Exports[serviceOf(f.Cluster)], f.Exports[headlessOf(f.Cluster)]
	switch {
	case !f.Server.Ready:
		j.broken[f.Cluster] = "its server doesn't run"
		j.problem(j.kubectl(f, "-n %s describe pod %s (run the test with --keep)", j.namespace, server),
			"the server in %s doesn't run: %s", f.Cluster, cmp.Or(f.Server.Why, "its pod isn't ready"))
	case !service.Seen && !headless.Seen:
		j.broken[f.Cluster] = "its agent doesn't export"
		j.problem(fmt.Sprintf("start clusterset member there; if it runs, its log says what it waits for (%s)", j.kubectl(f, "get pods -A -l app.kubernetes.io/component=member")),
			"%s exports nothing: no agent has seen its ServiceExports", f.Cluster)
	case !service.Ready || !headless.Ready:
		j.broken[f.Cluster] = "its exports aren't ready"
		j.problem(fmt.Sprintf("clusterset status --context %s says more", f.Context),
			"%s's exports don't get to the hub: %s", f.Cluster, cmp.Or(service.Message, headless.Message, "the ServiceExports aren't Ready"))
	}
}

func (j *judge) from(here *Facts) {
	if len(here.Answers) == 0 && here.Server.Ready && len(here.Imports) > 0 {
		j.problem(j.kubectl(here, "-n %s describe pod %s (run the test with --keep)", j.namespace, clientPod),
			"the client in %s didn't answer: %s", here.Cluster, cmp.Or(here.Client.Why, "its pod didn't end in time"))
	}
	dead := j.names(here)
	for _, there := range j.all {
		pair := Pair{From: here.Cluster, To: there.Cluster}
		_, service := here.Imports[serviceOf(there.Cluster)]
		_, headless := here.Imports[headlessOf(there.Cluster)]
		switch {
		case j.broken[there.Cluster] != "":
			pair.NotTried = there.Cluster + ": " + j.broken[there.Cluster]
		case !here.Server.Ready:
			pair.NotTried = here.Cluster + ": " + j.broken[here.Cluster]
		case !service || !headless:
			pair.NotTried = "not imported"
			if j.broken[here.Cluster] == "" { // else one cause is enough: its agent doesn't run
				j.problem(fmt.Sprintf("the agent's flags --import-namespaces and --exclude-namespaces, communities, and its connection to the hub decide that; clusterset status --context %s says more", here.Context),
					"%s doesn't import what %s exports: it lacks a ServiceImport in %s", here.Cluster, there.Cluster, j.namespace)
			}
		case len(here.Answers) == 0:
			pair.NotTried = "the client didn't answer"
		default:
			j.pair(&pair, here, there, dead)
		}
		j.report.Pairs = append(j.report.Pairs, pair)
	}
}

// names reports whether a cluster resolves no name of the zone at all.
func (j *judge) names(here *Facts) (dead bool) {
	var why string
	for _, a := range here.Answers {
		if a.Kind != Name && a.Kind != Headless {
			continue
		}
		if a.Outcome != Unresolved {
			return false
		}
		why = a.Error
	}
	if why != "" {
		j.problem(fmt.Sprintf("the cluster DNS must forward %s to clusterset's servers, both must run, and no network policy may block port 53: docs/forwarding.md. clusterset doctor --context %s checks that", j.zone, here.Context),
			"pods in %s can't resolve %s: %s", here.Cluster, j.zone, why)
	}
	return why != ""
}

// pair judges the answers of a cluster about another. dead means that no name is resolved, which has been reported.
func (j *judge) pair(pair *Pair, here, there *Facts, dead bool) {
	for _, a := range here.Answers {
		if a.To != there.Cluster {
			continue
		}
		if a.Kind == Headless && a.At != "" && j.outcome(here, there, ClusterSetIP, a.Family) == Works {
			a.Outcome = Works // the name is resolved, and pods of other clusters needn't answer
			j.note("%s reaches Services, not pods, of other clusters (data path clusterips), so it only resolves the names of their headless services", here.Cluster)
		}
		pair.Checks = append(pair.Checks, a)
		if a.Outcome != Works && (a.Outcome != Unresolved || !dead) {
			j.failed(here, there, a)
		}
	}
	switch imp := here.Imports[serviceOf(there.Cluster)]; {
	case len(imp.IPs) > 0:
	case imp.Ready:
		j.note("%s has no ClusterSetIPs (data path none), so only headless services are asked there", here.Cluster)
	default:
		j.problem(j.kubectl(here, "get events -A --field-selector reason=ForeignObject")+" may say more", "%s has no ClusterSetIP for what %s exports: %s", here.Cluster, there.Cluster, cmp.Or(imp.Message, "the ServiceImport isn't ready"))
	}
	if len(here.families(there)) == 0 {
		j.problem("give them a family in common", "the pods of %s and %s have no IP family in common", here.Cluster, there.Cluster)
	}
}

func (j *judge) failed(here, there *Facts, a Answer) {
	way := fmt.Sprintf("from %s to %s by %s", here.Cluster, there.Cluster, a.Family)
	switch a.Outcome {
	case NoAnswer:
		j.unreached(here, there, a, way)
	case WrongServer:
		j.problem("the clusters' pod networks overlap, or with data path clusterips their Service networks; they must not", "%s: another server than %s's answers at %s", way, there.Cluster, a.At)
	case OtherAnswer:
		j.problem("a DNS server that doesn't follow changes says so in its readiness and in coredns_clusterset_source_synced",
			"%s: the name %s has the address %s, but the ClusterSetIP is %s", way, a.Host, strings.Join(a.Addresses, ", "), a.Want)
	default:
		j.problem(fmt.Sprintf("clusterset explain %s --context %s (run the test with --keep)", strings.TrimSuffix(a.Host, "."), here.Context),
			"%s: the name %s isn't resolved: %s", way, a.Host, a.Error)
	}
}

// unreached says why an address doesn't answer, as far as that can be told. The pods behind a Service tell the network from kube-proxy.
func (j *judge) unreached(here, there *Facts, a Answer, way string) {
	switch {
	case a.Kind == Headless:
		j.problem(fmt.Sprintf("routes between the clusters' pod networks, firewalls and network policies decide that; clusterset only names addresses. The test uses TCP port %d", Port),
			"%s: the name leads to %s, which doesn't answer (%s)", way, a.At, a.Error)
	case j.outcome(here, there, Headless, a.Family) == Works: // else that is reported
		what := "ClusterSetIP"
		cure := fmt.Sprintf("see whether this cluster's kube-proxy, or what replaces it, uses the EndpointSlices of such Services: docs/data-planes.md; clusterset status --context %s says whether its agent is cut off from the hub", here.Context)
		if a.Kind == OwnName {
			what = "Service's own address"
			cure += ", an Event on the Service whether it isn't extended (run the test with --keep)"
		}
		j.problem(cure, "%s: the pods answer, but the %s %s doesn't (%s)", way, what, a.At, a.Error)
	}
}

func (j *judge) outcome(here, there *Facts, kind Kind, family Family) Outcome {
	at := slices.IndexFunc(here.Answers, func(a Answer) bool { return a.To == there.Cluster && a.Kind == kind && a.Family == family })
	if at < 0 {
		return ""
	}
	return here.Answers[at].Outcome
}

// Render returns the Report for a person.
func Render(r Report, colours bool) string {
	w := &screen.Writer{Colours: colours}
	var rows [][]screen.Cell
	for _, p := range r.Pairs {
		row := screen.T(p.From, p.To)
		for _, kind := range kinds {
			row = append(row, p.cell(kind))
		}
		rows = append(rows, append(row, screen.T(p.NotTried)...))
	}
	w.Table([]string{"FROM", "TO", "NAME", "CLUSTERSETIP", "HEADLESS", "OWN NAME", ""}, rows)
	for _, n := range r.Notes {
		w.Blank()
		w.Line(screen.Cell{Text: n, Colour: screen.Faint})
	}
	w.Blank()
	if len(r.Problems) == 0 {
		w.Line(screen.Cell{Text: "Every name and address works from every cluster.", Colour: screen.Good})
	}
	for _, p := range r.Problems {
		w.Line(screen.Cell{Text: "PROBLEM  ", Colour: screen.Bad}, screen.Cell{Text: p.Message})
		if p.Cure != "" {
			w.Line(screen.Cell{Text: "         → " + p.Cure})
		}
	}
	return w.String()
}

func (p *Pair) cell(kind Kind) screen.Cell {
	var works, fails []string
	for _, c := range p.Checks {
		switch {
		case c.Kind != kind:
		case c.Outcome == Works:
			works = append(works, string(c.Family))
		default:
			fails = append(fails, "no "+string(c.Family))
		}
	}
	all := slices.Concat(works, fails)
	switch {
	case p.NotTried != "":
		return screen.Cell{Text: "not tried", Colour: screen.Warn}
	case len(all) == 0:
		return screen.Cell{Text: "-", Colour: screen.Faint}
	case len(fails) > 0:
		return screen.Cell{Text: strings.Join(all, ", "), Colour: screen.Bad}
	}
	return screen.Cell{Text: strings.Join(all, ", "), Colour: screen.Good}
}
