package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Reachability says which other clusters this cluster can reach, as its agent measures it: by TCP connections to the agents there. There is
// one such object in a cluster, called local. DNS servers read it, and rank the endpoints of clusters that can't be reached behind all others.
//
// +genclient
// +genclient:nonNamespaced
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,path=reachabilities,singular=reachability,shortName=reach,categories=clusterset
// +kubebuilder:printcolumn:name="Cluster",type="string",JSONPath=".cluster",description="This cluster's name in the set"
// +kubebuilder:printcolumn:name="Unreachable",type="string",JSONPath=".clusters[?(@.reachable=='False')].name",description="A cluster that can't be reached"
// +kubebuilder:printcolumn:name="Written",type="date",JSONPath=".stamp",description="Time since the agent last wrote this"
// +kubebuilder:validation:XValidation:rule="self.metadata.name == 'local'",message="the only Reachability of a cluster is called local"
type Reachability struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// cluster is this cluster's name in the set.
	// +kubebuilder:validation:MaxLength=63
	Cluster string `json:"cluster"`

	// stamp is when the agent last wrote this object, by its own clock. It does so at least every three minutes. Readers take an object
	// whose stamp hasn't changed for ten minutes, by their own clocks, for one without clusters.
	Stamp metav1.MicroTime `json:"stamp"`

	// clusters are the other clusters, and what is known of the way to each.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=1024
	// +optional
	Clusters []ClusterReachability `json:"clusters,omitempty"`
}

// ReachabilityName is the name of a cluster's Reachability.
const ReachabilityName = "local"

// ClusterReachability says whether one other cluster can be reached.
type ClusterReachability struct {
	// name of the other cluster.
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// reachable is True, False or Unknown. Only False has an effect: the cluster's endpoints are used only if no other is left.
	// +kubebuilder:validation:Enum=True;False;Unknown
	Reachable metav1.ConditionStatus `json:"reachable"`

	// reason is a word for why. True: Answers. False: NoAnswer, Refused, WrongCluster (another cluster answers at that address), Returning
	// (it answers again, but not yet for long enough). Unknown: NoBeacon, NotAllowed (its beacons are outside its networks, or in ours),
	// NeverReached, WrongCluster. With any of them AllUnreachable: nothing else can be reached either, so the verdict stays.
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason"`

	// since is when reachable last changed.
	Since metav1.Time `json:"since"`

	// reached is whether the cluster was ever reached. Before that it is Unknown.
	// +optional
	Reached bool `json:"reached,omitempty"`

	// roundTripMicroseconds is how long the last connection took to be made when this was written.
	// +optional
	RoundTripMicroseconds int64 `json:"roundTripMicroseconds,omitempty"`

	// beacons are the addresses that are dialled.
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=64
	// +listType=atomic
	// +optional
	Beacons []string `json:"beacons,omitempty"`

	// ignoredBeacons is how many addresses that the cluster states aren't dialled: they are outside its networks, in ours, of no beacon, or too
	// many.
	// +kubebuilder:validation:Minimum=0
	// +optional
	IgnoredBeacons int32 `json:"ignoredBeacons,omitempty"`
}

// ReachabilityList is a list of Reachabilities.
//
// +kubebuilder:object:root=true
type ReachabilityList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the Reachabilities.
	Items []Reachability `json:"items"`
}
