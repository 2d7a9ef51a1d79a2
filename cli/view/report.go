// Package view is what is known of a cluster set, as seen from one cluster, from the hub, or from both: the clusters, the hub, the services
// that need attention, and what is wrong, with what to do about it.
//
// Every command and the console take it from here, so that none is green where another is red. fetch.go reads the objects, build.go turns
// them into a Report, and text.go prints that for `clusterset status`. The last two are pure.
package view

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/preview"
	"github.com/clusterset/clusterset/importer/desired"
)

// Report is what `clusterset status -o json` prints. Fields are only ever added.
type Report struct {
	// Time is when the report was made.
	Time time.Time `json:"time"`
	// Cluster is the local cluster's name in the set, empty if it isn't known or was not read.
	Cluster string `json:"cluster,omitempty"`
	// Steered is how the agent here tells service proxies which endpoints ClusterSetIPs lead to, and why, empty if it isn't known.
	Steered string `json:"steered,omitempty"`
	Hub     Hub    `json:"hub"`
	// Clusters are the set's clusters, by name.
	Clusters []Cluster `json:"clusters"`
	Services Services  `json:"services"`
	// Problems are those of the hub and the clusters, and what keeps services from this cluster. All has those of other kinds, too.
	Problems []Problem `json:"problems,omitempty"`
	// Elsewhere are the namespaces that other clusters lack by their last reports, so that nothing is imported into them there.
	Elsewhere []Problem `json:"elsewhere,omitempty"`
	// Notes are other things to know.
	Notes []string `json:"notes,omitempty"`

	traffic *Traffic
}

// HubState says whether the hub answers.
type HubState string

// The HubStates. Reachable: it answered. Unreachable: it couldn't be read. The others are of a hub that wasn't asked. Quiet: this cluster's agent can't
// read it. Heard: it answered the agent when that last reported. Unknown: nothing says how it is.
const (
	HubReachable   HubState = "Reachable"
	HubUnreachable HubState = "Unreachable"
	HubQuiet       HubState = "Quiet"
	HubHeard       HubState = "Heard"
	HubUnknown     HubState = "Unknown"
)

// Hub is the hub as seen from here.
type Hub struct {
	State  HubState `json:"state"`
	Server string   `json:"server,omitempty"`
	// LatencyMillis is how long it took to answer.
	LatencyMillis int64 `json:"latencyMillis,omitempty"`
	// ExpiryPaused is set if the hub considers itself cut off and lets no cluster expire.
	ExpiryPaused bool `json:"expiryPaused,omitempty"`
	// NotEnforced is why all clusters can read all exports although MemberClusters name communities. Empty: they name none, or the hub
	// enforces them.
	NotEnforced string `json:"notEnforced,omitempty"`

	// quiet says since when the agent here can't read it, and how it answers. away is the problem to report then, else nil.
	quiet string
	away  *Problem
}

// Cluster is a cluster of the set.
type Cluster struct {
	Name  string `json:"name"`
	Local bool   `json:"local,omitempty"`
	Phase string `json:"phase"` // Unknown before the first heartbeat, Left after the cluster has left
	Drain bool   `json:"drain,omitempty"`
	// Zones are those that the cluster states, or else those of its nodes.
	Zones  []string `json:"zones,omitempty"`
	Region string   `json:"region,omitempty"`
	// Communities are those that its MemberCluster names. A cluster imports from those that it shares one with; without any it is in the
	// default one.
	Communities []string `json:"communities,omitempty"`
	// Network is the one that its MemberCluster names. Clusters that name none are in one network, and between networks only external addresses
	// of Services are used.
	Network string `json:"network,omitempty"`
	// LastHeartbeat is the last known one. For a Ready cluster only the hub knows it.
	LastHeartbeat *time.Time `json:"lastHeartbeat,omitempty"`
	// Exports is how many services it exports, nil if unknown.
	Exports *int `json:"exports,omitempty"`
	// Flaws are what its MemberCluster's conditions say to be wrong, as Reasons of Problems: Limited, Invalid, OutsideCIDRs, NotJoined.
	Flaws []string `json:"flaws,omitempty"`
	// Reach is what this cluster's agent has measured of the way to it, nil if that is unknown. CantReach are the clusters that its own agent
	// says it can't reach, as far as the hub was read.
	Reach     *clustersetv1alpha1.ClusterReachability `json:"reach,omitempty"`
	CantReach []string                                `json:"cantReach,omitempty"`
	// Unmeasured are the clusters that its own agent may or may not reach, and Measures says that it measures at all.
	Unmeasured   []string `json:"unmeasured,omitempty"`
	Measures     bool     `json:"measures,omitempty"`
	AgentVersion string   `json:"agentVersion,omitempty"`
	Message      string   `json:"message,omitempty"`

	// unheard says that a person wrote its MemberCluster here, beside the agent's copies or without an agent: no heartbeat is expected.
	unheard bool
	// said has a problem for each of its Flaws.
	said []Problem
	// handOver says that nobody has used its credentials, which wait on the hub.
	handOver bool
	// cantFollow is a cluster of which it says that it can't follow the hub.
	cantFollow string
}

// Services counts the services and lists those that need attention.
type Services struct {
	// Imported and Exported are the local cluster's, nil if it was not read.
	Imported *int `json:"imported,omitempty"`
	Exported *int `json:"exported,omitempty"`
	// Extended is how many of the local cluster's Services lead to other clusters while they have no ready endpoint.
	Extended int `json:"extended,omitempty"`
	// Conflicts are the services that clusters disagree about.
	Conflicts []Problem `json:"conflicts,omitempty"`
	// LastResort are the services that currently lead only to silent, drained or unreachable clusters.
	LastResort []Problem `json:"lastResort,omitempty"`
	// Problems are the exports and imports that don't work, and services with nothing behind them.
	Problems []Problem `json:"problems,omitempty"`
}

// Problem is a problem of one service, of a cluster, or of the hub.
type Problem struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// What is the kind of the object: Service, ServiceExport, ServiceImport, MemberCluster, Namespace, Hub, or Exports for all
	// clusters' records on the hub.
	What    string `json:"what"`
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
	// Cure is what to do about it, if the message doesn't say that.
	Cure string `json:"cure,omitempty"`
}

// Facts are the input of a Report.
type Facts struct {
	Now time.Time
	// Local is nil if no local cluster was read, Hub if no hub was.
	Local *LocalFacts
	Hub   *HubFacts
	Notes []string
	// Traffic is the local cluster's, nil if it was not read.
	Traffic *Traffic
}

// asked reports whether the hub was read.
func (f *Facts) asked() bool { return f.Hub != nil && f.Hub.Err == nil }

// hubNow is the time as of which the hub is known.
func (f *Facts) hubNow() time.Time {
	if f.Hub == nil || f.Hub.Read.IsZero() {
		return f.Now
	}
	return f.Hub.Read
}

// LocalFacts are read from the local cluster.
type LocalFacts struct {
	Cluster string
	Members []clustersetv1alpha1.MemberCluster
	// Reach is nil if it isn't known which clusters can be reached.
	Reach   *clustersetv1alpha1.Reachability
	Imports []mcsv1beta1.ServiceImport
	Exports []mcsv1beta1.ServiceExport
	// Namespaces are the cluster's namespaces, nil if they may not be read.
	Namespaces map[string]bool
	// Pods are ours in the cluster, and PodsErr is why they can't be read. Agent are the settings of its agent, nil if they aren't known.
	Pods    []Pod
	PodsErr error
	Agent   *Settings
	// Marks are the Services and Namespaces with a mark that exports nothing, as far as they may be read.
	Marks []Problem
	// Others say what another multi-cluster system has of services, as far as it may be read.
	Others map[client.ObjectKey]string
	// AgentLease is the Lease that the agent renewed last, nil if none is known. SecretMissing says that there is no Secret with its credentials.
	AgentLease    *coordinationv1.Lease
	SecretMissing bool
	// Asking are the Services that ask to be extended to other clusters, as far as they may be read.
	Asking []Asking
	// Refusals are what the agent said last of those that it didn't extend, as far as its Events may be read.
	Refusals map[client.ObjectKey]string
	// Held are the Services that the agent says it keeps exported although their ServiceExports were deleted, as far as its Events may be read.
	Held map[client.ObjectKey]string
	// Slices are those with endpoints of the set's clusters. They are read if a cluster is silent, drained, unreachable or in another network.
	Slices []discoveryv1.EndpointSlice
	// RoutesErr is why they can't be read.
	RoutesErr error
}

// Asking is a Service of the cluster that asks to be extended to other clusters.
type Asking struct {
	desired.Extended
	// Is says that it has endpoints of other clusters.
	Is bool
}

// HubFacts are read from the hub.
type HubFacts struct {
	Server  string
	Err     error // nil where it could be read
	Latency time.Duration
	// Read is when it was read, zero if that is the Facts' Now.
	Read    time.Time
	Members []clustersetv1alpha1.MemberCluster
	// Heard are the members' heartbeats. It is nil if Leases may not be read.
	Heard map[string]Heartbeat
	// Process is when the hub process last said that it runs, zero if that isn't known.
	Process time.Time
	Exports []clustersetv1alpha1.ExportedService
	// Endpoints are those behind the exports.
	Endpoints []clustersetv1alpha1.ExportedEndpoints
	// Services are what the exports amount to, as State, which has the records, says: at least of services that need attention.
	Services map[types.NamespacedName]*preview.Exported
	State    *preview.State
}
