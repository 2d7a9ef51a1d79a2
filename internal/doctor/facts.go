package doctor

import (
	"time"

	"github.com/clusterset/clusterset/internal/status"
)

// Facts are what the checks go by.
type Facts struct {
	Now time.Time
	// Cluster is the member, Hub the hub: nil where it was not asked for.
	Cluster, Hub *Server
	// Zones are the zones that clients ask, without final dots.
	Zones []string

	ClusterDNS, NodeLocalDNS ConfigMap
	// ResolvConf is what a pod's resolver goes by, empty where we are in no pod.
	ResolvConf string
	// Replies are the answers of DNSServer for each zone, in order. DNSServer is empty where none was given.
	DNSServer string
	Replies   []Reply
	// Express is what that server's metrics say, nil where no server was given.
	Express *Express
	// LastResort are the services that lead only to clusters that are silent or drained, LastResortErr why that can't be said.
	LastResort    []status.Problem
	LastResortErr error
	// Names tell whether agents share one.
	Names Names
	// Credentials are the member agent's, nil where they were not found.
	Credentials *Credentials
}

// Server is what there is to know about an API server.
type Server struct {
	What    string // "cluster" or "hub"
	Address string
	Err     error // why it can't be asked
	Version string
	// Skew is how far its clock is ahead of ours, and Uncertain how wrong that may be. Both are zero where it gave no time.
	Skew, Uncertain time.Duration
	Timed           bool
	CRDs            []CRD
	Rights          []Right
	// RightsErr is why Rights could not be asked for.
	RightsErr error
}

// CRD is a kind that should be served.
type CRD struct {
	Name     string   // as globalservices.dns.fabedge.io
	Want     []string // versions, of which one has to be served
	Served   []string
	Optional bool
	// Outdated are fields that our definition has and the installed one lacks; Unread that its schema could not be read.
	Outdated []string
	Unread   bool
	Err      error
}

// Right is something that an account should be allowed to do.
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

// Reply is what a DNS server said to the question for dns-version.<zone>.
type Reply struct {
	Zone string
	// Parent is the zone that answered in place of Zone, which is a part of it: global in place of svc.global.
	Parent string
	// Texts are the TXT records. With an Err there are none.
	Texts []string
	// NotFound: it says that there is no such name. Timeout: it said nothing.
	NotFound, Timeout bool
	Err               error
}

// Credentials are the kubeconfig that a member's agent reaches the hub with.
type Credentials struct {
	Key     string // namespace/name of the Secret
	Expires time.Time
	Server  string
}
