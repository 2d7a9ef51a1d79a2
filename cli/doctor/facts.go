package doctor

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/clusterdns"
	"github.com/clusterset/clusterset/cli/view"
)

// Facts are the input of the checks. An error says why what is before it can't be read.
type Facts struct {
	Now time.Time
	// Cluster is the member and Hub the hub. nil means that it is not checked: without a Cluster, only the hub's API server is.
	Cluster, Hub *Server
	// Zones are the zones that clients query, without the final dot.
	Zones []string

	ClusterDNS, NodeLocalDNS clusterdns.Place
	// Replies are the answers of DNSServer for each zone, in order. DNSServer is empty if none was given.
	DNSServer string
	Replies   []clusterdns.Reply
	// Set is what the cluster, and the hub if it is checked, say of the set.
	Set    view.Report
	SetErr error
	// Services are those of the cluster, none if they can't be read. Workloads and Pods are ours in it.
	Services     []corev1.Service
	Workloads    []Workload
	WorkloadsErr error
	Pods         []view.Pod
	PodsErr      error
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
	// Skew is how far its clock is ahead of ours. Timed is false if it returned no time.
	Skew      time.Duration
	Timed     bool
	CRDs      []CRD
	CRDsErr   error
	Rights    []Right
	RightsErr error
}

// CRD is a kind that must be served.
type CRD struct {
	Name   string // such as globalservices.dns.fabedge.io
	Served bool   // in a version that we read
	// Outdated are what our definition has and the installed one lacks: fields, or the status subresource.
	Outdated []string
}

// Right is something that the account must be allowed to do.
type Right struct {
	Verb, Resource string // the Resource with its group, such as memberclusters.clusterset.dev
	Name           string
	Allowed        bool
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
