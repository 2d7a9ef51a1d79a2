package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MemberReport is what a member says about itself. There is one in each member's namespace on the hub, called clusterset-agent, which its agent
// writes when something in it changes. The hub process and the clusterset commands read it, and the other members' agents its beacons.
//
// +genclient
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=memberreports,singular=memberreport,shortName=mrep,categories=clusterset
// +kubebuilder:printcolumn:name="Agent",type="string",JSONPath=".spec.agentVersion",description="Version of the agent"
// +kubebuilder:printcolumn:name="Unreachable",type="string",JSONPath=".spec.unreachable",description="Clusters that it can't reach"
// +kubebuilder:validation:XValidation:rule="self.metadata.name == 'clusterset-agent'",message="the only MemberReport of a member is called clusterset-agent"
type MemberReport struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the member says. A field that is absent isn't known.
	Spec MemberReportSpec `json:"spec"`
}

// MemberReportName is the name of a member's report in its namespace on the hub.
const MemberReportName = "clusterset-agent"

// MaxReportedClusters is how many clusters each list of a MemberReport names.
const MaxReportedClusters = 250

// MemberReportSpec is what a member says about itself.
type MemberReportSpec struct {
	// agentVersion is the version of the member's agent.
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[ -~]*$`
	// +optional
	AgentVersion string `json:"agentVersion,omitempty"`

	// zones of the cluster's nodes. Absent while they aren't known.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`
	// +listType=set
	// +optional
	Zones []string `json:"zones,omitzero"`

	// namespaces are hashes of the names of the cluster's namespaces, as in a MemberCluster's status. Empty if a missing one says nothing about
	// what is imported; absent while they aren't known.
	// +kubebuilder:validation:MaxLength=2731
	// +optional
	Namespaces *string `json:"namespaces,omitempty"`

	// beacons are the addresses, with ports, at which the agents answer others that measure whether they can reach this cluster. Empty if there
	// are none; absent while they aren't known.
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=64
	// +listType=atomic
	// +optional
	Beacons []string `json:"beacons,omitzero"`

	// beaconServices are ClusterIPs in front of the beacons, with ports.
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=64
	// +listType=atomic
	// +optional
	BeaconServices []string `json:"beaconServices,omitzero"`

	// unreachable are the other clusters that this one can't reach. Absent until something has been measured.
	// +kubebuilder:validation:MaxItems=250
	// +kubebuilder:validation:items:MaxLength=63
	// +listType=atomic
	// +optional
	Unreachable []string `json:"unreachable,omitzero"`

	// unmeasured are the other clusters of which it isn't known whether this one can reach them.
	// +kubebuilder:validation:MaxItems=250
	// +kubebuilder:validation:items:MaxLength=63
	// +listType=atomic
	// +optional
	Unmeasured []string `json:"unmeasured,omitzero"`

	// truncated means that unreachable or unmeasured lacks names, because there are more than 250.
	// +optional
	Truncated bool `json:"truncated,omitempty"`

	// follows is a digest of the drains and leaves that the cluster acts on. Absent until it has once followed all that the hub had.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Follows string `json:"follows,omitempty"`

	// cantFollow is a cluster whose drain this one can't act on, because it has a MemberCluster of that name that isn't its agent's copy.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	CantFollow string `json:"cantFollow,omitempty"`
}

// MemberReportList is a list of MemberReports.
//
// +kubebuilder:object:root=true
type MemberReportList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the MemberReports.
	Items []MemberReport `json:"items"`
}
