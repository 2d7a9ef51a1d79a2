package v1alpha1

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
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

	// spec is what an administrator configures.
	// +optional
	Spec MemberClusterSpec `json:"spec,omitempty"`

	// status is what the hub observes.
	// +optional
	Status MemberClusterStatus `json:"status,omitempty"`
}

// Left reports whether the cluster has left the set. Its MemberCluster says so, and stays for a week so that all members see it
// (api.MemberFinalizer). One that is being deleted and doesn't say so hasn't left yet: perhaps its kind is being deleted. A cluster without a
// MemberCluster hasn't left either: the hub lost it.
func (m *MemberCluster) Left() bool {
	return meta.IsStatusConditionTrue(m.Status.Conditions, ConditionLeft)
}

// SetLeft makes a MemberCluster say that its cluster has left.
func (m *MemberCluster) SetLeft(now time.Time) {
	meta.SetStatusCondition(&m.Status.Conditions, metav1.Condition{
		Type: ConditionLeft, Status: metav1.ConditionTrue, Reason: ReasonDeleted, ObservedGeneration: m.Generation, LastTransitionTime: metav1.NewTime(now),
		Message: "its rights and records are deleted; clusterset join can use the name again",
	})
}

// ForgottenAt returns when the hub began to delete the records of a cluster that is silent, by its clock; zero if it hasn't.
func (m *MemberCluster) ForgottenAt() time.Time {
	if c := meta.FindStatusCondition(m.Status.Conditions, ConditionForgotten); c != nil && c.Status == metav1.ConditionTrue {
		return c.LastTransitionTime.Time
	}
	return time.Time{}
}

// DrainsAndLeaves returns a digest of which clusters are drained, and which have left (rule C76 of docs/spec/control-plane.md). A member states
// the one that it acts on, and who drains a cluster compares it with that of the hub's MemberClusters.
func DrainsAndLeaves(members []MemberCluster) string {
	var lines []string
	for i := range members {
		switch m := &members[i]; {
		case m.Left():
			lines = append(lines, m.Name+" left\n")
		case m.Spec.Drain:
			lines = append(lines, m.Name+" drained\n")
		}
	}
	slices.Sort(lines)
	sum := sha256.Sum256([]byte(strings.Join(lines, "")))
	return hex.EncodeToString(sum[:8])
}

// MemberClusterSpec is what an administrator configures for a cluster.
type MemberClusterSpec struct {
	// zone of the cluster, for endpoints that don't state their own. Without zone and zones, the zones of the cluster's nodes
	// are used, which its agent reports (status.zones). An unknown zone matches no zone.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^$|^\S(.*\S)?$`
	// +optional
	Zone string `json:"zone,omitempty"`

	// zones of a cluster that spans several; zone, if set, is one more. What has no zone of its own, such as a Service's
	// ClusterIP, counts as close to each of them. They take precedence over status.zones.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:Pattern=`^\S(.*\S)?$`
	// +listType=set
	// +optional
	Zones []string `json:"zones,omitempty"`

	// region of the cluster. Empty means unknown, which matches no region.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^$|^\S(.*\S)?$`
	// +optional
	Region string `json:"region,omitempty"`

	// drain ranks the cluster's endpoints behind all others, whatever the distance: they are used only if nothing else is left.
	// `clusterset drain` sets it.
	// +optional
	Drain bool `json:"drain,omitempty"`

	// weight is the cluster's share relative to other clusters of the same tier, 1 to 100. It is the weight of SRV records (RFC
	// 2782), and the cluster's share if the server's max_answers leaves addresses out. It has no effect behind a ClusterSetIP:
	// kube-proxy gives equal shares. Defaults to 100. To send no traffic at all, set drain.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +optional
	Weight *int32 `json:"weight,omitempty"`

	// The rule for cidrs and externalCIDRs does without CEL's cidr(), which CustomResourceDefinitions can use only since Kubernetes 1.31. It is exact for IPv4. Of
	// IPv6 it refuses what most mistakes look like: a last group other than 0, or more groups than the network has. Validate finds the rest.

	// cidrs are the networks of the cluster's endpoint and service addresses, such as 10.1.0.0/16. Addresses outside them can't
	// be exported, which keeps a member from exporting another's. Empty means no limit.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=43
	// +kubebuilder:validation:items:Pattern=`^[0-9a-fA-F:.]+/(0|[1-9][0-9]{0,2})$`
	// +kubebuilder:validation:items:XValidation:rule="self.contains(':') ? int(self.split('/')[1]) <= 128 && (int(self.split('/')[1]) > 112 || self.matches('(::|:0+)/') && self.split(':').filter(g, !g.matches('^0*(/.*)?$')).size() <= (int(self.split('/')[1]) + 15) / 16) : self.matches('^((0|[1-9][0-9]{0,2})([.]|/)){4}') && int(self.split('/')[1]) <= 32 && [0, 1, 2, 3].all(i, int(self.split('/')[0].split('.')[i]) <= 255 && int(self.split('/')[0].split('.')[i]) % [1, 2, 4, 8, 16, 32, 64, 128, 256][int(self.split('/')[1]) >= 8 * i + 8 ? 0 : int(self.split('/')[1]) <= 8 * i ? 8 : 8 * i + 8 - int(self.split('/')[1])] == 0)",message="must be a network without host bits, such as 10.1.0.0/16 or fd00:1::/48"
	// +listType=set
	// +optional
	CIDRs []string `json:"cidrs,omitempty"`

	// network that the cluster is in: a DNS label, empty for the one network of clusters that name none. Clusters of one network reach
	// each other's pods, or ClusterIPs. Between networks only the external addresses of Services are used: load balancers, nodes and
	// their ports, or what clusterset.dev/external-addresses states.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^$|^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +optional
	Network string `json:"network,omitempty"`

	// externalCIDRs are the networks of the external addresses of the cluster's Services and beacons: its nodes, load balancers or
	// gateways. Clusters of other networks use only addresses in them, so without any they use none.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=43
	// +kubebuilder:validation:items:Pattern=`^[0-9a-fA-F:.]+/(0|[1-9][0-9]{0,2})$`
	// +kubebuilder:validation:items:XValidation:rule="self.contains(':') ? int(self.split('/')[1]) <= 128 && (int(self.split('/')[1]) > 112 || self.matches('(::|:0+)/') && self.split(':').filter(g, !g.matches('^0*(/.*)?$')).size() <= (int(self.split('/')[1]) + 15) / 16) : self.matches('^((0|[1-9][0-9]{0,2})([.]|/)){4}') && int(self.split('/')[1]) <= 32 && [0, 1, 2, 3].all(i, int(self.split('/')[0].split('.')[i]) <= 255 && int(self.split('/')[0].split('.')[i]) % [1, 2, 4, 8, 16, 32, 64, 128, 256][int(self.split('/')[1]) >= 8 * i + 8 ? 0 : int(self.split('/')[1]) <= 8 * i ? 8 : 8 * i + 8 - int(self.split('/')[1])] == 0)",message="must be a network without host bits, such as 10.1.0.0/16 or fd00:1::/48"
	// +listType=set
	// +optional
	ExternalCIDRs []string `json:"externalCIDRs,omitempty"`

	// communities that the cluster is in: DNS labels. It can read and import only the exports of the clusters that it shares one
	// with. A cluster that names none is in the community default, so if no cluster names any, all import from all.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +listType=set
	// +optional
	Communities []string `json:"communities,omitempty"`
}

// Joined reports whether the cluster has joined the set, and isn't only described: a hub holds it with a finalizer, and a copy of it says since when
// it has been a member.
func (m *MemberCluster) Joined() bool {
	return slices.Contains(m.Finalizers, api.MemberFinalizer) || m.Annotations[api.AnnotationJoined] != ""
}

// JoinedAt returns when the cluster joined the set: the time in api.AnnotationJoined, or else the object's creation time, which is the same
// on the hub.
func (m *MemberCluster) JoinedAt() time.Time {
	if at, err := time.Parse(time.RFC3339, m.Annotations[api.AnnotationJoined]); err == nil {
		return at
	}
	return m.CreationTimestamp.Time
}

// Apart reports whether two clusters are in different networks, so that only external addresses lead from one to the other (D80 of
// docs/spec/data-path.md). One that is nil, of which nothing is known, counts as one that names no network.
func (m *MemberCluster) Apart(o *MemberCluster) bool { return m.network() != o.network() }

func (m *MemberCluster) network() string {
	if m == nil {
		return ""
	}
	return m.Spec.Network
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

// MemberClusterPhase is a cluster's state by the length of its silence.
type MemberClusterPhase string

const (
	// MemberReady clusters renew their heartbeat.
	MemberReady MemberClusterPhase = "Ready"

	// MemberSuspect clusters have been silent for a while (40 s by default): their endpoints rank behind those of every healthy
	// cluster.
	MemberSuspect MemberClusterPhase = "Suspect"

	// MemberExpired clusters have been silent for long (5 min by default): their endpoints are not in answers. Their exports
	// stay on the hub, so that one renewal brings everything back. With the condition Left they have left for good.
	MemberExpired MemberClusterPhase = "Expired"
)

// MemberClusterStatus is what the hub observes of a cluster.
type MemberClusterStatus struct {
	// phase is Ready, Suspect or Expired. Empty means that the hub has never seen a heartbeat; DNS then treats the cluster as
	// healthy.
	// +kubebuilder:validation:Enum=Ready;Suspect;Expired
	// +optional
	Phase MemberClusterPhase `json:"phase,omitempty"`

	// lastHeartbeatTime is when, by the hub's clock, the hub last saw the Lease of a Suspect or Expired cluster change. It
	// isn't set for a Ready cluster, because every member watches this object; see the Lease in the cluster's namespace on the
	// hub instead.
	// +optional
	LastHeartbeatTime *metav1.Time `json:"lastHeartbeatTime,omitempty"`

	// agentVersion is the version of the member's agent, as it last reported.
	// +kubebuilder:validation:MaxLength=128
	// +optional
	AgentVersion string `json:"agentVersion,omitempty"`

	// zones of the cluster's nodes, by their label topology.kubernetes.io/zone, as its agent last reported them. They are used
	// if spec has neither zone nor zones.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +listType=set
	// +optional
	Zones []string `json:"zones,omitempty"`

	// namespaces are hashes of the names of the cluster's namespaces, as its agent last reported them, in base64: services of others are
	// imported only into these. Empty if it doesn't say.
	// +kubebuilder:validation:MaxLength=2731
	// +optional
	Namespaces string `json:"namespaces,omitempty"`

	// exportedServices is how many ExportedServices the cluster had on the hub when this status last changed.
	// +optional
	ExportedServices *int32 `json:"exportedServices,omitempty"`

	// conditions: Ready, ExpiryPaused, Joined, CommunitiesEnforced, Limited, Valid, WithinCIDRs, Left, Forgotten; on a member's copy also OnHub.
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Condition types and reasons of a MemberCluster.
const (
	// ConditionReady is True in phase Ready, False in Suspect and Expired, Unknown before the first heartbeat. Its message
	// states the time.
	ConditionReady = "Ready"

	// ReasonHeartbeatSeen goes with Ready=True.
	ReasonHeartbeatSeen = "HeartbeatSeen"

	// ReasonHeartbeatMissed goes with Ready=False in phase Suspect.
	ReasonHeartbeatMissed = "HeartbeatMissed"

	// ReasonHeartbeatExpired goes with Ready=False in phase Expired.
	ReasonHeartbeatExpired = "HeartbeatExpired"

	// ReasonNoHeartbeat goes with Ready=Unknown.
	ReasonNoHeartbeat = "NoHeartbeat"

	// ConditionExpiryPaused is True while more than half of the members, or all, are silent together. That is more likely the
	// hub's fault than theirs, so none of them expires. Otherwise the condition is absent.
	ConditionExpiryPaused = "ExpiryPaused"

	// ReasonMostMembersSilent goes with ExpiryPaused=True.
	ReasonMostMembersSilent = "MostMembersSilent"

	// ConditionLeft is True if the cluster has left the set, and its rights and records are deleted. The MemberCluster is then in phase Expired, has no
	// other condition, and is deleted a week later. Otherwise the condition is absent.
	ConditionLeft = "Left"

	// ConditionForgotten is True from when the hub process begins to delete the records of a cluster that has been silent for very long, until it
	// is heard again. Its lastTransitionTime is by the hub's clock. Otherwise the condition is absent.
	ConditionForgotten = "Forgotten"

	// ReasonSilent goes with Forgotten=True.
	ReasonSilent = "Silent"

	// ReasonDeleted goes with Left=True: the MemberCluster was deleted, by `clusterset leave` or by hand.
	ReasonDeleted = "Deleted"

	// ConditionJoined is whether the hub process has made the cluster a member, if that is enabled (hub --manage-members).
	// Otherwise the condition is absent.
	ConditionJoined = "Joined"

	// ReasonCredentialsWait goes with Joined=True: a Secret on the hub holds the kubeconfig for the cluster's agent.
	ReasonCredentialsWait = "CredentialsWait"

	// ReasonCredentialsTaken goes with Joined=True, after the agent's first heartbeat.
	ReasonCredentialsTaken = "CredentialsTaken"

	// ReasonNotOurs goes with Joined=False and CommunitiesEnforced=False: an object that is needed exists, but isn't clusterset's.
	ReasonNotOurs = "NotOurs"

	// ConditionCommunitiesEnforced says whether the hub limits what the cluster can read to its communities. It exists only while some
	// cluster of the set is in another community than the default one. If it is missing then, the hub process is down or
	// lacks rights, and nothing is enforced.
	ConditionCommunitiesEnforced = "CommunitiesEnforced"

	// ReasonEnforced goes with CommunitiesEnforced=True.
	ReasonEnforced = "Enforced"

	// ConditionLimited is True if the cluster has as many services on the hub as it may have, so that more are rejected.
	// Otherwise the condition is absent.
	ConditionLimited = "Limited"

	// ReasonTooManyServices goes with Limited=True.
	ReasonTooManyServices = "TooManyServices"

	// ConditionValid is False if something in spec can't be used, and its message names it. Everything else counts: health, drain, and what
	// is valid of the rest. Otherwise the condition is absent.
	ConditionValid = "Valid"

	// ReasonInvalid goes with Valid=False.
	ReasonInvalid = "Invalid"

	// ConditionWithinCIDRs is False while spec.cidrs leaves out addresses that the cluster exports, and its message says how many. Otherwise the
	// condition is absent.
	ConditionWithinCIDRs = "WithinCIDRs"

	// ReasonOutsideCIDRs goes with WithinCIDRs=False.
	ReasonOutsideCIDRs = "OutsideCIDRs"

	// ConditionHubAnswers is, on a member's copy of its own MemberCluster, whether the hub answers its agent and lets it read, and since when.
	ConditionHubAnswers = "HubAnswers"

	// ReasonHubAnswers goes with HubAnswers=True.
	ReasonHubAnswers = "Answers"

	// ReasonHubAway goes with HubAnswers=False.
	ReasonHubAway = "Away"

	// ReasonHubRefuses goes with HubAnswers=False: the hub answers, and its records can't be read.
	ReasonHubRefuses = "Refuses"

	// ReasonHubRefusesToken goes with HubAnswers=False: the hub doesn't accept the agent's token, because it was revoked, has expired or is another hub's.
	ReasonHubRefusesToken = "RefusesToken"

	// ConditionSteered is True on a member's copy of its own MemberCluster. Its reason and message say how the agent tells service proxies which
	// endpoints ClusterSetIPs lead to, and why so.
	ConditionSteered = "Steered"

	// ReasonHints goes with Steered=True: by hints of endpoints, and by labels of slices where hints don't suffice.
	ReasonHints = "Hints"

	// ReasonLabels goes with Steered=True: by labels of slices alone.
	ReasonLabels = "Labels"

	// ConditionOnHub is False on a member's copy of a MemberCluster that the hub has lost, until it is back or somebody deletes the copy. Otherwise
	// the condition is absent.
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
