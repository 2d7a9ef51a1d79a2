package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/index"
	"github.com/clusterset/clusterset/internal/topology"
)

// Query is what is asked, and by which server.
type Query struct {
	Name   Name
	From   topology.Location
	Policy topology.Policy
}

// Facts are what the answer depends on, and what there is to tell about it.
type Facts struct {
	Now     time.Time
	Objects []index.Object
	// Members are the MemberClusters among the Objects, as they came.
	Members []clustersetv1alpha1.MemberCluster
	// Conflicts, one sentence each, are between the clusters that export the service.
	Conflicts []string
	Notes     []string
	// slices are the EndpointSlices among the Objects, as they came, and those that DNS doesn't read.
	slices []*discoveryv1.EndpointSlice
}

// Result is what DNS says of a name.
type Result string

// The results, as in the rcode of a reply.
const (
	Answer   Result = "NOERROR"  // with addresses
	NoData   Result = "NODATA"   // the name exists, and has no address
	NXDomain Result = "NXDOMAIN" // it doesn't
)

// Explanation is what `clusterset explain -o json` prints. Fields are only ever added.
type Explanation struct {
	Name    string        `json:"name"`
	Dialect index.Dialect `json:"dialect"`
	Time    time.Time     `json:"time"`
	From    Place         `json:"from"`
	// Prefer are the tiers from the most to the least wanted, Boundary the one that is never left.
	Prefer   []string `json:"prefer"`
	Boundary string   `json:"boundary,omitempty"`
	// MinReady is how many ready endpoints make a tier enough; 0 is 1.
	MinReady int `json:"minReady,omitempty"`
	// Stated is what of these the service itself states; the rest is the server's.
	Stated string `json:"stated,omitempty"`

	Result    Result   `json:"result"`
	Addresses []string `json:"addresses,omitempty"`
	// Source is the object that answers, Because why it and why this result.
	Source  string `json:"source"`
	Because string `json:"because"`
	// Tier is the one that won, empty where endpoints were not ranked. Degraded says that only drained or Suspect clusters
	// were left.
	Tier     string `json:"tier,omitempty"`
	Degraded bool   `json:"degraded,omitempty"`

	Endpoints []Endpoint `json:"endpoints,omitempty"`
	Clusters  []Cluster  `json:"clusters,omitempty"`
	Conflicts []string   `json:"conflicts,omitempty"`
	Notes     []string   `json:"notes,omitempty"`
}

// Place is where a server or an endpoint is.
type Place struct {
	Cluster string `json:"cluster,omitempty"`
	Zone    string `json:"zone,omitempty"`
	Region  string `json:"region,omitempty"`
}

// Endpoint is a candidate, and what became of it.
type Endpoint struct {
	Place
	Address  string `json:"address"`
	Hostname string `json:"hostname,omitempty"`
	// Tier is how near it is, empty where that was never a question.
	Tier string `json:"tier,omitempty"`
	// Answered says that its address is in the answer; else Reason says why not.
	Answered bool   `json:"answered"`
	Reason   string `json:"reason"`
}

// Cluster is a cluster with endpoints of the service.
type Cluster struct {
	Place
	Phase         string     `json:"phase"`
	Drain         bool       `json:"drain,omitempty"`
	LastHeartbeat *time.Time `json:"lastHeartbeat,omitempty"`
}

// NotFoundError says that there is no such service.
type NotFoundError struct {
	Name Name
	// Near are services of like names.
	Near []string
}

func (e *NotFoundError) Error() string {
	hint := "clusterset status shows whether anyone exports it"
	if len(e.Near) > 0 {
		hint = "did you mean " + strings.Join(e.Near, " or ") + "?"
	}
	return fmt.Sprintf("%s is NXDOMAIN: there is neither a ServiceImport nor a GlobalService %s/%s; %s",
		e.Name, e.Name.Key.Namespace(), e.Name.Key.Name(), hint)
}

// near returns up to three services that someone may have meant.
func near(key index.ServiceKey, all []*index.Service) []string {
	var same, like []string
	for _, s := range all {
		written := s.Key().Namespace() + "/" + s.Key().Name()
		switch name := s.Key().Name(); {
		case name == key.Name() || s.Key().Namespace() == key.Name() && name == key.Namespace():
			same = append(same, written)
		case s.Key().Namespace() == key.Namespace() && (strings.Contains(name, key.Name()) || strings.Contains(key.Name(), name) || distance(name, key.Name()) <= max(1, len(name)/4)):
			like = append(like, written)
		}
	}
	found := slices.Concat(same, like)
	return found[:min(len(found), 3)]
}

// distance is the number of letters to change between two names (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		last := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := last
			if a[i] != b[j] {
				cost++
			}
			last = row[j+1]
			row[j+1] = min(cost, last+1, row[j]+1)
		}
	}
	return row[len(b)]
}
