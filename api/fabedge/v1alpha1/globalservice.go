package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ServiceType says what the endpoints of a GlobalService are.
type ServiceType string

const (
	// ClusterIP services have one endpoint per cluster, which holds that cluster's ClusterIPs.
	ClusterIP ServiceType = "ClusterIP"
	// Headless services have the backends themselves as endpoints, usually pods.
	Headless ServiceType = "Headless"
)

// GlobalService is a service that one or more clusters offer to all of them, under its own namespace and name. The
// importer writes it from the exports on the hub; users may write their own, for backends outside any cluster too.
//
// +genclient
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=gsvc,categories=clusterset
// +kubebuilder:printcolumn:name="Type",type="string",JSONPath=".spec.type",description="ClusterIP or Headless"
// +kubebuilder:printcolumn:name="Truncated",type="integer",JSONPath=".status.truncatedEndpoints",description="Endpoints left out for want of room"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
type GlobalService struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the service: its type, ports and endpoints.
	// +optional
	Spec GlobalServiceSpec `json:"spec,omitempty"`

	// status is what the importer says about a GlobalService it wrote (clusterset: an addition to FabDNS's schema). DNS
	// doesn't read it.
	// +optional
	Status GlobalServiceStatus `json:"status,omitempty"`
}

// GlobalServiceSpec describes a service and where to reach it.
type GlobalServiceSpec struct {
	// type is ClusterIP or Headless. Left out, it means ClusterIP.
	// +kubebuilder:validation:Enum=ClusterIP;Headless
	// +optional
	Type ServiceType `json:"type,omitempty"`

	// ports the service listens on. Those that have a name get SRV records.
	// +optional
	Ports []ServicePort `json:"ports,omitempty"`

	// endpoints to choose from, in no particular order. At most 4096 of them serve.
	// +optional
	Endpoints []Endpoint `json:"endpoints,omitempty"`
}

// Endpoint is one cluster's service (type ClusterIP) or one backend (type Headless), with its place.
type Endpoint struct {
	// addresses of the endpoint, IPv4 or IPv6 or some of each; 1 to 100.
	// +listType=set
	Addresses []string `json:"addresses"`

	// hostname, a DNS label, gives a headless endpoint the name <hostname>.<cluster>.<service>.<namespace>.svc.global.
	// Endpoints that share a hostname share the name. Without one the address, with dashes, takes its place.
	// +optional
	Hostname *string `json:"hostname,omitempty"`

	// targetRef names the object behind the endpoint, in the endpoint's own cluster. For readers only.
	// +optional
	TargetRef *corev1.ObjectReference `json:"targetRef,omitempty"`

	// cluster the endpoint lies in. Empty: in none, so that it has no name below a cluster's and no cluster's health
	// counts for it.
	// +optional
	Cluster string `json:"cluster,omitempty"`

	// zone the endpoint lies in. Empty: unknown, which matches no zone.
	// +optional
	Zone string `json:"zone,omitempty"`

	// region the endpoint lies in. Empty: unknown, which matches no region.
	// +optional
	Region string `json:"region,omitempty"`

	// ready says whether the endpoint takes traffic; left out, it does (clusterset: an addition to FabDNS's schema,
	// meaning what an EndpointSlice's conditions.ready means).
	// +optional
	Ready *bool `json:"ready,omitempty"`

	// ports that this endpoint listens on, where they differ from the service's: a headless client connects to the
	// endpoint itself, so SRV has to give the endpoint's port (clusterset: an addition to FabDNS's schema). Left out,
	// the service's ports are the endpoint's.
	// +kubebuilder:validation:MaxItems=100
	// +listType=atomic
	// +optional
	Ports []EndpointPort `json:"ports,omitempty"`
}

// IsReady says whether the endpoint takes traffic. Nothing said means yes.
func (e *Endpoint) IsReady() bool { return e.Ready == nil || *e.Ready }

// EndpointPort is a port that one endpoint listens on (clusterset: an addition to FabDNS's schema).
type EndpointPort struct {
	// name of the service's port that this is the endpoint's side of. Empty for a service with a single unnamed port.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Name string `json:"name,omitempty"`

	// protocol is TCP, UDP or SCTP. Left out, it is TCP.
	// +kubebuilder:validation:Enum=TCP;UDP;SCTP
	// +kubebuilder:default=TCP
	// +optional
	Protocol corev1.Protocol `json:"protocol,omitempty"`

	// port number, 1 to 65535.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port"`
}

// ServicePort is a port of the service.
type ServicePort struct {
	// name of the port, a DNS label, unique in the service. A port without one has no SRV record.
	// +optional
	Name string `json:"name,omitempty"`

	// protocol is TCP, UDP or SCTP. Left out, it is TCP.
	// +kubebuilder:default=TCP
	// +optional
	Protocol corev1.Protocol `json:"protocol,omitempty"`

	// appProtocol is a hint at the protocol spoken on the port, as in a Service. DNS doesn't read it.
	// +optional
	AppProtocol *string `json:"appProtocol,omitempty"`

	// port number, 1 to 65535.
	// +optional
	Port int32 `json:"port,omitempty"`
}

// GlobalServiceStatus is what the importer says about a GlobalService it wrote that has no room for all endpoints. Of any other it
// says nothing: the spec has them all.
type GlobalServiceStatus struct {
	// clusters that at least one endpoint of the spec lies in.
	// +optional
	Clusters int32 `json:"clusters,omitempty"`

	// endpoints in the spec.
	// +optional
	Endpoints int32 `json:"endpoints,omitempty"`

	// readyEndpoints is how many of those are ready.
	// +optional
	ReadyEndpoints int32 `json:"readyEndpoints,omitempty"`

	// truncatedEndpoints is how many endpoints were exported but found no room in the spec, which holds 4096.
	// +optional
	TruncatedEndpoints int32 `json:"truncatedEndpoints,omitempty"`

	// conditions: Truncated.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Condition types and reasons of a GlobalService.
const (
	// ConditionTruncated is True while more endpoints are exported than the spec has room for. The importer shares the
	// room fairly between the clusters, so that none of them vanishes.
	ConditionTruncated = "Truncated"

	// ReasonTooManyEndpoints is the reason for Truncated=True.
	ReasonTooManyEndpoints = "TooManyEndpoints"
)

// GlobalServiceList is a list of GlobalServices.
//
// +kubebuilder:object:root=true
type GlobalServiceList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the GlobalServices.
	Items []GlobalService `json:"items"`
}
