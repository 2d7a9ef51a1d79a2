package status

import (
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
)

// Report is what `clusterset status -o json` prints. Fields are only ever added.
type Report struct {
	// Time is when it was made.
	Time time.Time `json:"time"`
	// Cluster is the local cluster's name in the set, empty where it is not known or was not looked at.
	Cluster string `json:"cluster,omitempty"`
	Hub     Hub    `json:"hub"`
	// Clusters are the set's, by name.
	Clusters []Cluster `json:"clusters"`
	Services Services  `json:"services"`
	// Notes are what else whoever looks should know.
	Notes []string `json:"notes,omitempty"`
}

// HubState is what is known of the hub.
type HubState string

const (
	// HubReachable has answered.
	HubReachable HubState = "Reachable"
	// HubUnreachable was asked and has not.
	HubUnreachable HubState = "Unreachable"
	// HubQuiet was not asked, and this cluster's agent gets no answer from it.
	HubQuiet HubState = "Quiet"
	// HubHeard was not asked, but answers this cluster's agent, for all that the agent said last.
	HubHeard HubState = "Heard"
	// HubUnknown was not asked, and nothing here tells.
	HubUnknown HubState = "Unknown"
)

// Hub is the hub as it is seen from here.
type Hub struct {
	State  HubState `json:"state"`
	Server string   `json:"server,omitempty"`
	// Error is why it is not reachable.
	Error string `json:"error,omitempty"`
	// LatencyMillis is how long it took to answer.
	LatencyMillis int64 `json:"latencyMillis,omitempty"`
	// AwaySince is since when it doesn't answer the local cluster's agent.
	AwaySince *time.Time `json:"awaySince,omitempty"`
	// ExpiryPaused says that the hub takes itself for cut off, and lets no cluster expire.
	ExpiryPaused bool `json:"expiryPaused,omitempty"`
	// NotEnforced is why all clusters can read all exports although MemberClusters name communities. Empty: they name none, or the hub
	// enforces them.
	NotEnforced string `json:"notEnforced,omitempty"`
	// Awaited are the clusters that the hub has lost and that haven't joined it again.
	Awaited []string `json:"awaited,omitempty"`
}

// Cluster is a cluster of the set.
type Cluster struct {
	Name  string `json:"name"`
	Local bool   `json:"local,omitempty"`
	Phase string `json:"phase"` // Unknown before the first heartbeat, Left after the cluster has left
	Drain bool   `json:"drain,omitempty"`
	// Zones are those that it states, or else those of its nodes; Zone is the one where there is one.
	Zone   string   `json:"zone,omitempty"`
	Zones  []string `json:"zones,omitempty"`
	Region string   `json:"region,omitempty"`
	// Communities are those that its MemberCluster names. A cluster imports from those that it shares one with; without any it is in the
	// default one.
	Communities []string `json:"communities,omitempty"`
	// LastHeartbeat is the last that is known of. Of a Ready cluster only the hub knows it.
	LastHeartbeat *time.Time `json:"lastHeartbeat,omitempty"`
	// Exports is how many services it exports, nil where that isn't known.
	Exports *int `json:"exports,omitempty"`
	// Limited says that it has as many services on the hub as it may, so that more are refused.
	Limited bool `json:"limited,omitempty"`
	// Cloned says that two clusters work with its identity, name and credentials, of which one yields.
	Cloned bool `json:"cloned,omitempty"`
	// NotJoined says that the hub process can't make it a member.
	NotJoined bool `json:"notJoined,omitempty"`
	// Outdated says that its agent can't read with the rights of communities, so that its imports stay as they are.
	Outdated     bool   `json:"outdated,omitempty"`
	AgentVersion string `json:"agentVersion,omitempty"`
	Message      string `json:"message,omitempty"`
}

// Services counts the services and lists those that need a look.
type Services struct {
	// Imported and Exported are the local cluster's, nil where that was not looked at.
	Imported *int `json:"imported,omitempty"`
	Exported *int `json:"exported,omitempty"`
	// Conflicts are the services over which clusters disagree.
	Conflicts []Problem `json:"conflicts,omitempty"`
	// LastResort are the services that at present lead only to clusters that are silent or drained.
	LastResort []Problem `json:"lastResort,omitempty"`
	// Problems are the exports and imports that don't work.
	Problems []Problem `json:"problems,omitempty"`
}

// Problem is something about one service.
type Problem struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// What is the object it is about: ServiceExport, ServiceImport, GlobalService, or Exports for what the hub holds of all clusters.
	What    string `json:"what"`
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
}

// Facts are what a Report is made of.
type Facts struct {
	Now time.Time
	// Local is nil where no local cluster was looked at, Hub where no hub was.
	Local *LocalFacts
	Hub   *HubFacts
	Notes []string
}

// LocalFacts are read from the local cluster.
type LocalFacts struct {
	Cluster string
	Members []clustersetv1alpha1.MemberCluster
	Imports []mcsv1beta1.ServiceImport
	Exports []mcsv1beta1.ServiceExport
	// Globals and Slices are read where a cluster is silent or drained, Slices those with endpoints of the set's clusters.
	Globals []fabedgev1alpha1.GlobalService
	Slices  []discoveryv1.EndpointSlice
	// RoutesErr is why they can't be read.
	RoutesErr error
}

// HubFacts are read from the hub.
type HubFacts struct {
	Server  string
	Err     error // nil where it could be read
	Latency time.Duration
	Members []clustersetv1alpha1.MemberCluster
	// Renewed is when each member's Lease was renewed, by that member's clock. Nil where Leases may not be read.
	Renewed map[string]time.Time
	Exports []clustersetv1alpha1.ExportedService
}
