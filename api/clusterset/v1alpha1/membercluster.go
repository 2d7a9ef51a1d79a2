package v1alpha1

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterset/clusterset/api"
)

// MemberCluster is a cluster of the set, with its location and health. `clusterset join` creates it on the hub, the hub process updates its
// status, and the importer mirrors it into every member, where DNS uses it to rank the cluster's endpoints. Its name is the cluster's: the
// source-cluster label of EndpointSlices and the cluster of GlobalService endpoints refer to it. A user can also create it in a member, to
// give a location to a cluster of another MCS implementation.
//
// +genclient
// +genclient:nonNamespaced
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=member;members,categories=clusterset
// +kubebuilder:printcolumn:name="Zone",type="string",JSONPath=".spec.zone"
// +kubebuilder:printcolumn:name="Region",type="string",JSONPath=".spec.region"
// +kubebuilder:printcolumn:name="Phase",type="string",JSONPath=".status.phase",description="Ready, Suspect or Expired; empty before the first heartbeat"
// +kubebuilder:printcolumn:name="Drain",type="boolean",JSONPath=".spec.drain",description="Whether the cluster is used only as a last resort"
// +kubebuilder:printcolumn:name="Silent",type="date",JSONPath=".status.lastHeartbeatTime",description="Time since the last heartbeat of a Suspect or Expired cluster"
// +kubebuilder:printcolumn:name="Version",type="string",JSONPath=".status.agentVersion",description="Version of the member agent"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63 && self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)?$')",message="the name must be a cluster name: a DNS label, or two joined by a dot, of at most 63 bytes"
type MemberCluster struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what people decide about the cluster.
	// +optional
	Spec MemberClusterSpec `json:"spec,omitempty"`

	// status is what the hub sees of the cluster.
	// +optional
	Status MemberClusterStatus `json:"status,omitempty"`
}

// Left reports whether the cluster has left the set: its MemberCluster is deleted, by `clusterset leave` or by hand, and stays for a week
// so that all members see it (api.MemberFinalizer). A cluster without a MemberCluster hasn't left: the hub lost it.
func (m *MemberCluster) Left() bool { return m.DeletionTimestamp != nil }

// MemberClusterSpec is what people decide about a cluster.
type MemberClusterSpec struct {
	// zone the cluster lies in, for endpoints that don't say their own. Where neither zone nor zones is given, the zones of
	// the cluster's nodes count, which its agent reports (status.zones). Unknown matches no zone.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^$|^\S(.*\S)?$`
	// +optional
	Zone string `json:"zone,omitempty"`

	// zones the cluster lies in, where it lies in several; zone, if given, is one more. What doesn't say its own zone, as a
	// Service's ClusterIP, counts as near to each of them. They go before status.zones.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:Pattern=`^\S(.*\S)?$`
	// +listType=set
	// +optional
	Zones []string `json:"zones,omitempty"`

	// region the cluster lies in. Empty: unknown, which matches no region.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^$|^\S(.*\S)?$`
	// +optional
	Region string `json:"region,omitempty"`

	// drain puts the cluster's endpoints behind every other, whatever the distance: they serve only where nothing else is
	// left. `clusterset drain` sets it.
	// +optional
	Drain bool `json:"drain,omitempty"`

	// weight is the cluster's share against others of the same tier, 1 to 100, where an answer can express one: as the weight
	// of SRV records (RFC 2782), and as its share where the server's max_answers leaves addresses out. Behind a ClusterSetIP it
	// counts for nothing: kube-proxy gives equal shares. Left out, it is 100. To send no traffic at all, drain.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +optional
	Weight *int32 `json:"weight,omitempty"`

	// cidrs that the cluster's endpoint and service addresses lie in, such as 10.1.0.0/16, for a policy that keeps a
	// member from exporting another's addresses. Empty: no such limit.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=43
	// +kubebuilder:validation:items:Pattern=`^[0-9a-fA-F:.]+/[0-9]{1,3}$`
	// +listType=set
	// +optional
	CIDRs []string `json:"cidrs,omitempty"`

	// communities that the cluster is in: DNS labels. It can read and import the exports of the clusters that it shares one with,
	// and of no others. A cluster that names none is in the community default, so where none does, all import from all.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +listType=set
	// +optional
	Communities []string `json:"communities,omitempty"`
}

// JoinedAt returns when the cluster joined the set: the time in api.AnnotationJoined, or else the object's creation time, which is the same
// on the hub.
func (m *MemberCluster) JoinedAt() time.Time {
	if at, err := time.Parse(time.RFC3339, m.Annotations[api.AnnotationJoined]); err == nil {
		return at
	}
	return m.CreationTimestamp.Time
}

// AllZones returns the cluster's zones, sorted and without duplicates: those in the spec (zone and zones), or else those that the cluster's
// agent reports from its nodes.
func (m *MemberCluster) AllZones() []string {
	zones := append([]string{m.Spec.Zone}, m.Spec.Zones...)
	if m.Spec.Zone == "" && len(m.Spec.Zones) == 0 {
		zones = slices.Clone(m.Status.Zones)
	}
	zones = slices.DeleteFunc(zones, func(zone string) bool { return zone == "" })
	slices.Sort(zones)
	return slices.Compact(zones)
}

// DefaultWeight is the weight of a cluster that doesn't state one.
const DefaultWeight int32 = 100

// MemberClusterPhase is how long a cluster has been silent, in three steps.
type MemberClusterPhase string

const (
	// MemberReady clusters renew their heartbeat.
	MemberReady MemberClusterPhase = "Ready"

	// MemberSuspect clusters haven't for a while (40 s by default): their endpoints rank behind those of every healthy
	// cluster.
	MemberSuspect MemberClusterPhase = "Suspect"

	// MemberExpired clusters haven't for long (5 min by default): their endpoints are not answered. What they exported
	// stays on the hub, so that one renewal brings everything back. With the condition Left they have left for good.
	MemberExpired MemberClusterPhase = "Expired"
)

// MemberClusterStatus is what the hub sees of a cluster.
type MemberClusterStatus struct {
	// phase is Ready, Suspect or Expired. Empty: the hub has never seen a heartbeat, and DNS takes the cluster as
	// healthy.
	// +kubebuilder:validation:Enum=Ready;Suspect;Expired
	// +optional
	Phase MemberClusterPhase `json:"phase,omitempty"`

	// lastHeartbeatTime is when, by the hub's clock, it last saw the Lease of a Suspect or Expired cluster change. A Ready one has
	// none: every member watches this object, and none has to know. The Lease in the cluster's namespace on the hub says it.
	// +optional
	LastHeartbeatTime *metav1.Time `json:"lastHeartbeatTime,omitempty"`

	// agentVersion is the version of the member agent that last renewed the Lease.
	// +kubebuilder:validation:MaxLength=128
	// +optional
	AgentVersion string `json:"agentVersion,omitempty"`

	// zones that the cluster's nodes lie in, by their label topology.kubernetes.io/zone, as its agent said last. They count
	// where spec has neither zone nor zones.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +listType=set
	// +optional
	Zones []string `json:"zones,omitempty"`

	// exportedServices is how many ExportedServices the cluster had on the hub when phase or agentVersion changed last.
	// +optional
	ExportedServices *int32 `json:"exportedServices,omitempty"`

	// conditions: Ready, ExpiryPaused, Joined, CommunitiesEnforced, Limited, Cloned, Left; on a member's copy also OnHub.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Condition types and reasons of a MemberCluster.
const (
	// ConditionReady is True in phase Ready, False in Suspect and Expired, Unknown before the first heartbeat. Its
	// message says since when.
	ConditionReady = "Ready"

	// ReasonHeartbeatSeen goes with Ready=True.
	ReasonHeartbeatSeen = "HeartbeatSeen"

	// ReasonHeartbeatMissed goes with Ready=False in phase Suspect.
	ReasonHeartbeatMissed = "HeartbeatMissed"

	// ReasonHeartbeatExpired goes with Ready=False in phase Expired.
	ReasonHeartbeatExpired = "HeartbeatExpired"

	// ReasonNoHeartbeat goes with Ready=Unknown.
	ReasonNoHeartbeat = "NoHeartbeat"

	// ConditionExpiryPaused is True while the brake holds: more than half of the members, or all, turned silent together, which
	// says more about the hub than about them, so none of them expires.
	ConditionExpiryPaused = "ExpiryPaused"

	// ReasonMostMembersSilent goes with ExpiryPaused=True.
	ReasonMostMembersSilent = "MostMembersSilent"

	// ReasonMostMembersHeard goes with ExpiryPaused=False.
	ReasonMostMembersHeard = "MostMembersHeard"

	// ConditionLeft is True where the cluster has left the set, and its rights and records are taken away. The MemberCluster is
	// then in phase Expired, and goes a week after that. The condition is not there otherwise.
	ConditionLeft = "Left"

	// ReasonDeleted goes with Left=True, and then with Ready=False: the MemberCluster was deleted, by `clusterset leave` or by hand.
	ReasonDeleted = "Deleted"

	// ConditionJoined says whether the hub process has made the cluster a member, where that is switched on (hub --manage-members). It is
	// not there otherwise.
	ConditionJoined = "Joined"

	// ReasonCredentialsWait goes with Joined=True: a Secret on the hub holds the kubeconfig for the cluster's agent.
	ReasonCredentialsWait = "CredentialsWait"

	// ReasonCredentialsTaken goes with Joined=True, after the agent's first heartbeat.
	ReasonCredentialsTaken = "CredentialsTaken"

	// ReasonNotOurs goes with Joined=False and CommunitiesEnforced=False: an object of somebody else's has the name of one that is needed.
	ReasonNotOurs = "NotOurs"

	// ConditionCommunitiesEnforced says whether what the cluster can read on the hub is bound by its communities. It is there only while
	// some cluster of the set is in another community than the default one. Missing then, the hub process is of an earlier version, or
	// lacks rights, and nothing is enforced.
	ConditionCommunitiesEnforced = "CommunitiesEnforced"

	// ReasonEnforced goes with CommunitiesEnforced=True.
	ReasonEnforced = "Enforced"

	// ReasonAgentTooOld goes with CommunitiesEnforced: this cluster's agent doesn't know communities. False: the set's communities are not
	// enforced because of it. True: they were before, and its imports stay as they are until it is updated.
	ReasonAgentTooOld = "AgentTooOld"

	// ReasonWaitsForAgents goes with CommunitiesEnforced=False: other clusters have the reason AgentTooOld.
	ReasonWaitsForAgents = "WaitsForAgents"

	// ConditionLimited is True where the cluster has as many services on the hub as it may, so that more are refused. It is not
	// there before.
	ConditionLimited = "Limited"

	// ReasonTooManyServices goes with Limited=True.
	ReasonTooManyServices = "TooManyServices"

	// ReasonFewServices goes with Limited=False.
	ReasonFewServices = "FewServices"

	// ConditionCloned is True where a second cluster works with this one's identity, name and credentials, as one does that was restored
	// from its backup. The agent that started later exports nothing. The condition is not there before.
	ConditionCloned = "Cloned"

	// ReasonCloneYields goes with Cloned=True.
	ReasonCloneYields = "CloneYields"

	// ReasonCloneGone goes with Cloned=False.
	ReasonCloneGone = "CloneGone"

	// ConditionHubAnswers stands on a member's copy of its own MemberCluster: whether the hub answers its agent, and since when.
	ConditionHubAnswers = "HubAnswers"

	// ReasonHubAnswers goes with HubAnswers=True.
	ReasonHubAnswers = "Answers"

	// ReasonHubAway goes with HubAnswers=False.
	ReasonHubAway = "Away"

	// ConditionOnHub is False on a member's copy of a MemberCluster that the hub has lost, with or without the rest of its data,
	// while the cluster is given the time to join it again. It is not there otherwise.
	ConditionOnHub = "OnHub"
	// ReasonNotRejoined goes with OnHub=False.
	ReasonNotRejoined = "NotRejoined"
)

// MemberClusterList is a list of MemberClusters.
//
// +kubebuilder:object:root=true
type MemberClusterList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the MemberClusters.
	Items []MemberCluster `json:"items"`
}
