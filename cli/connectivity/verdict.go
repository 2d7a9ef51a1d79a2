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
	From     string  `json:"from"`
	To       string  `json:"to"`
	Checks   []Check `json:"checks,omitempty"`
	NotTried string  `json:"notTried,omitempty"`
}

// Check is one question and its answer.
type Check struct {
	Kind      Kind     `json:"kind"`
	Family    string   `json:"family"`
	Outcome   Outcome  `json:"outcome"`
	Addresses []string `json:"addresses,omitempty"`
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
	case f.Gone:
		j.broken[f.Cluster] = "its namespace is missing"
		j.problem("find out who deletes namespaces there; services are imported only into namespaces that exist",
			"%s has no namespace %s any more: it was deleted while the test ran", f.Cluster, j.namespace)
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
	if len(here.Answers) == 0 && !here.Gone && here.Server.Ready && slices.ContainsFunc(j.all, func(f *Facts) bool { return here.Imports[serviceOf(f.Cluster)].There }) {
		j.problem(j.kubectl(here, "-n %s describe pod %s (run the test with --keep)", j.namespace, clientPod),
			"the client in %s didn't answer: %s", here.Cluster, cmp.Or(here.Client.Why, "its pod didn't end in time"))
	}
	dead := j.names(here)
	for _, there := range j.all {
		pair := Pair{From: here.Cluster, To: there.Cluster}
		switch service, headless := here.Imports[serviceOf(there.Cluster)], here.Imports[headlessOf(there.Cluster)]; {
		case j.broken[there.Cluster] != "":
			pair.NotTried = there.Cluster + ": " + j.broken[there.Cluster]
		case here.Gone || !here.Server.Ready:
			pair.NotTried = here.Cluster + ": " + j.broken[here.Cluster]
		case !service.There || !headless.There:
			pair.NotTried = "not imported"
			j.notImported(here, there)
		case len(here.Answers) == 0:
			pair.NotTried = "the client didn't answer"
		default:
			j.pair(&pair, here, there, dead)
		}
		j.report.Pairs = append(j.report.Pairs, pair)
	}
}

func (j *judge) notImported(here, there *Facts) {
	if j.broken[here.Cluster] != "" {
		return // one cause is enough: its agent doesn't run
	}
	missing := serviceOf(there.Cluster)
	if here.Imports[missing].There {
		missing = headlessOf(there.Cluster)
	}
	j.problem(fmt.Sprintf("the agent's flags --import-namespaces and --exclude-namespaces, communities, and its connection to the hub decide that; clusterset status --context %s says more", here.Context),
		"%s doesn't import what %s exports: it has no ServiceImport %s/%s", here.Cluster, there.Cluster, j.namespace, missing)
}

// names finds what is wrong with all names of the zone in a cluster, and returns that outcome.
func (j *judge) names(here *Facts) Outcome {
	var first Outcome
	for _, a := range here.Answers {
		if a.Kind != Name && a.Kind != Headless {
			continue
		}
		if first = cmp.Or(first, a.Outcome); a.Outcome != first {
			return ""
		}
	}
	forwarding := fmt.Sprintf("let the cluster DNS forward %s to clusterset's servers: docs/forwarding.md. clusterset doctor --context %s checks that", j.zone, here.Context)
	switch first {
	case NoName:
		j.problem(forwarding, "pods in %s can't resolve %s: their DNS server says that there are no such names, although the services are imported", here.Cluster, j.zone)
	case DNSFails:
		j.problem("see whether clusterset's DNS servers run and are ready, and whether the cluster DNS forwards to their address: docs/forwarding.md",
			"pods in %s can't resolve %s: their DNS server answers with a failure", here.Cluster, j.zone)
	case DNSSilent:
		j.problem("see whether the cluster DNS, and clusterset's DNS servers that it forwards to, run and are ready; a network policy may also block port 53",
			"pods in %s can't resolve %s: no DNS server answers", here.Cluster, j.zone)
	default:
		return ""
	}
	return first
}

// pair judges the answers of a cluster about another. dead is an outcome of all names that has been reported.
func (j *judge) pair(pair *Pair, here, there *Facts, dead Outcome) {
	for _, a := range here.Answers {
		if a.To != there.Cluster {
			continue
		}
		pair.Checks = append(pair.Checks, Check{Kind: a.Kind, Family: a.Family.String(), Outcome: a.Outcome, Addresses: a.Addresses})
		if a.Outcome == Works || a.Outcome == dead && (a.Kind == Name || a.Kind == Headless || dead == DNSSilent) {
			continue
		}
		j.failed(here, there, a)
	}
	imp := here.Imports[serviceOf(there.Cluster)]
	for _, f := range here.families(there) {
		asked := func(kind Kind) bool {
			return slices.ContainsFunc(pair.Checks, func(c Check) bool { return c.Kind == kind && c.Family == f.String() })
		}
		if !asked(Headless) || addressOf(f, imp.IPs) != "" && !asked(Name) {
			j.problem("run the test again with a longer --timeout", "%s imported what %s exports only after the questions were asked", here.Cluster, there.Cluster)
		}
	}
	switch {
	case !imp.Unaddressed && len(imp.IPs) == 0:
		j.problem(j.kubectl(here, "get events -A --field-selector reason=ForeignObject")+" may say more", "%s has no ClusterSetIP for what %s exports: %s", here.Cluster, there.Cluster, cmp.Or(imp.Message, "the ServiceImport isn't ready"))
	case imp.Unaddressed:
		j.note("%s has no ClusterSetIPs (data path none), so only headless services are asked there", here.Cluster)
	}
	if here.Routed[there.Cluster] {
		j.note("%s reaches Services, not pods, of other clusters (data path clusterips), so it only resolves the names of their headless services", here.Cluster)
	}
	if len(here.families(there)) == 0 {
		j.problem("give them a family in common", "the pods of %s and %s have no IP family in common", here.Cluster, there.Cluster)
	}
}

func (j *judge) failed(here, there *Facts, a Answer) {
	way := fmt.Sprintf("from %s to %s by %s", here.Cluster, there.Cluster, a.Family)
	switch a.Outcome {
	case NoAnswer, Refused:
		j.unreached(here, there, a, way)
	case WrongServer:
		j.problem("the clusters' pod networks overlap, or with data path clusterips their Service networks; they must not", "%s: another server than %s's answers at %s", way, there.Cluster, a.At)
	case OtherAnswer:
		j.problem("a DNS server that doesn't follow changes says so in its readiness and in coredns_clusterset_source_synced",
			"%s: the name %s has the address %s, but the ClusterSetIP is %s", way, a.Host, strings.Join(a.Addresses, ", "), a.Want)
	default:
		j.problem(fmt.Sprintf("clusterset explain %s --context %s (run the test with --keep)", strings.TrimSuffix(a.Host, "."), here.Context),
			"%s: the name %s isn't resolved (%s)", way, a.Host, cmp.Or(a.Error, string(a.Outcome)))
	}
}

// unreached says why an address doesn't answer, as far as that can be told. Its own cluster's pods, and what the agents measure, tell a
// network that isn't there from a port that is blocked.
func (j *judge) unreached(here, there *Facts, a Answer, way string) {
	what := "doesn't answer"
	if a.Outcome == Refused {
		what = "refuses connections"
	}
	pods := j.outcome(here, there, Headless, a.Family)
	switch {
	case a.Kind != Headless && here.lacksEndpoints(there, a.Family):
		j.problem(fmt.Sprintf("its agent imports them from the hub; clusterset status --context %s says more", here.Context),
			"%s: %s %s, because %s doesn't have the endpoints of what %s exports (yet)", way, a.At, what, here.Cluster, there.Cluster)
	case a.Kind != Headless && pods == Works && a.Kind == ClusterSetIP:
		j.problem("see whether this cluster's kube-proxy, or what replaces it, uses EndpointSlices of Services without a selector: docs/data-planes.md",
			"%s: the pods answer, but the ClusterSetIP %s %s", way, a.At, what)
	case a.Kind != Headless && pods == Works:
		j.problem("see whether this cluster's kube-proxy, or what replaces it, uses serving, terminating endpoints: docs/data-planes.md; an Event on the Service says if it isn't extended (run the test with --keep)",
			"%s: the pods answer, but the Service's own address %s %s", way, a.At, what)
	case a.Kind != Headless && (pods == NoAnswer || pods == Refused):
		// The pods are reported.
	case here.Reached[there.Cluster]:
		j.problem(fmt.Sprintf("a network policy or a firewall between the clusters blocks TCP port %d; the agents' own port answers, so there is a route", port),
			"%s: %s %s, although the clusters reach each other", way, a.At, what)
	default:
		j.problem(fmt.Sprintf("routes between the clusters' pod networks, firewalls and network policies decide that; clusterset only names addresses. The test uses TCP port %d", port),
			"%s: the name leads to %s, which %s", way, a.At, what)
	}
}

func (j *judge) outcome(here, there *Facts, kind Kind, family Family) Outcome {
	at := slices.IndexFunc(here.Answers, func(a Answer) bool { return a.To == there.Cluster && a.Kind == kind && a.Family == family && a.Connect })
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
			works = append(works, c.Family)
		default:
			fails = append(fails, "no "+c.Family)
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
