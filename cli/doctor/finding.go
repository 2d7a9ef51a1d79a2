// Package doctor finds what prevents cross-cluster names from working in a cluster, and says how to fix it.
//
// It implements `clusterset doctor`: it reads Facts, and the checks are pure functions of them. A check that can't be made, because the account may
// not read everything, says so and is no finding.
package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/screen"
	"github.com/clusterset/clusterset/cli/view"
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
	// Check names the check: server, crds, rights, clock, hub, clusterdns, nodelocaldns, searchpath, dns, express, workloads, pods, location, set,
	// reach, extended.
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

// ofServers and ofCluster are run in this order, so that a problem comes before those it causes. The latter need a Cluster.
var (
	ofServers = []check{{"server", checkServers}, {"hub", checkHub}, {"crds", checkCRDs}, {"rights", checkRights}, {"clock", checkClocks}}
	ofCluster = []check{
		{"hub", checkCredentials},
		{"clusterdns", checkClusterDNS},
		{"nodelocaldns", checkNodeLocalDNS},
		{"searchpath", checkSearchPath},
		{"dns", checkDNS},
		{"express", checkExpress},
		{"workloads", checkWorkloads},
		{"pods", checkPods},
		{"location", checkLocation},
		{"set", checkSet},
		{"reach", checkReach},
		{"extended", checkExtended},
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

// Facts are the input of the checks.
type Facts struct {
	Now time.Time
	// Cluster is the member and Hub the hub. nil means that it is not checked: without a Cluster, only the hub's API server is.
	Cluster, Hub *Server
	// Zones are the zones that clients query, without the final dot.
	Zones []string

	ClusterDNS, NodeLocalDNS ConfigMap
	// ResolvConf is the content of a pod's /etc/resolv.conf, empty if this isn't a pod.
	ResolvConf string
	// Replies are the answers of DNSServer for each zone, in order. DNSServer is empty if none was given.
	DNSServer string
	Replies   []Reply
	// Express is read from that server's metrics, nil if no server was given.
	Express *Express
	// Set is what the cluster, and the hub if it is checked, say of the set. SetErr is why they say nothing.
	Set    view.Report
	SetErr error
	// Services are those of the cluster that have an address, and ServicesErr is why they can't be read.
	Services    []Service
	ServicesErr error
	// Workloads are ours in the cluster, and WorkloadsErr is why they can't be read.
	Workloads    []Workload
	WorkloadsErr error
	// Pods are ours in the cluster, and PodsErr is why they can't be read.
	Pods    []view.Pod
	PodsErr error
	// Member is this cluster's MemberCluster, nil if there is none or the cluster's name isn't known.
	Member *clustersetv1alpha1.MemberCluster
	// Credentials are the member agent's, nil if they weren't looked for.
	Credentials *Credentials
}

// Server is what is known of an API server.
type Server struct {
	What    string // "cluster" or "hub"
	Address string
	Err     error // why it can't be reached
	Version string
	// Skew is how far its clock is ahead of ours, and Uncertain how inaccurate that may be. Both are zero if it returned no
	// time.
	Skew, Uncertain time.Duration
	Timed           bool
	CRDs            []CRD
	Rights          []Right
	// RightsErr is why Rights are unknown.
	RightsErr error
}

// CRD is a kind that must be served.
type CRD struct {
	Name     string   // such as globalservices.dns.fabedge.io
	Want     []string // the versions; one of them must be served
	Served   []string
	Optional bool
	// Outdated are what our definition has and the installed one lacks: fields, or the status subresource.
	Outdated []string
	Err      error
}

// Right is something that an account must be allowed to do.
type Right struct {
	For                              string // what needs it
	Verb, Group, Resource, Namespace string
	Name                             string
	Allowed                          bool
}

// ConfigMap is the configuration of a DNS server of the cluster.
type ConfigMap struct {
	Key   string // namespace/name
	Found bool
	Data  map[string]string
	Err   error
}

// Reply is a DNS server's reply to the query for dns-version.<zone>.
type Reply struct {
	Zone string
	// Parent is the zone that answered instead of Zone and contains it: global instead of svc.global.
	Parent string
	// Texts are the TXT records. There are none with an Err.
	Texts []string
	// NotFound: there is no such name. Timeout: the server didn't reply.
	NotFound, Timeout bool
	Err               error
}

// Credentials are the member agent's kubeconfig for the hub.
type Credentials struct {
	Key     string // namespace/name of the Secret
	Err     error  // why they can't be read
	Refused bool   // whether the hub, asked from here, doesn't accept the token
	Expires time.Time
	// Lifetime is how long the token is valid after it was issued.
	Lifetime time.Duration
	Server   string
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
