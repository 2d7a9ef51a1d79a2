package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ServiceType is the kind of a GlobalService's endpoints.
type ServiceType string

const (
	// ClusterIP services have one endpoint per cluster, with that cluster's ClusterIPs.
	ClusterIP ServiceType = "ClusterIP"
	// Headless services have the backends themselves as endpoints, usually pods.
	Headless ServiceType = "Headless"
)

// GlobalService is a service that one or more clusters offer to all of them, under its own namespace and name. The importer
// writes it from the exports on the hub. Users may write their own, also for backends outside any cluster.
//
// +genclient
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=gsvc,categories=clusterset
// +kubebuilder:printcolumn:name="Type",type="string",JSONPath=".spec.type",description="ClusterIP or Headless"
// +kubebuilder:printcolumn:name="Truncated",type="integer",JSONPath=".status.truncatedEndpoints",description="Endpoints that did not fit"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
type GlobalService struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the service: its type, ports and endpoints.
	// +optional
	Spec GlobalServiceSpec `json:"spec,omitempty"`

	// status is what the importer reports about a GlobalService that it wrote (clusterset: an addition to FabDNS's schema). DNS
	// doesn't read it.
	// +optional
	Status GlobalServiceStatus `json:"status,omitempty"`
}

// GlobalServiceSpec describes a service and how to reach it.
type GlobalServiceSpec struct {
	// type is ClusterIP or Headless. Defaults to ClusterIP.
	// +kubebuilder:validation:Enum=ClusterIP;Headless
	// +optional
	Type ServiceType `json:"type,omitempty"`

	// ports the service listens on. Named ports get SRV records.
	// +optional
	Ports []ServicePort `json:"ports,omitempty"`

	// endpoints to choose from, in no particular order. At most 4096 of them are served.
	// +optional
	Endpoints []Endpoint `json:"endpoints,omitempty"`
}

// Endpoint is one cluster's service (type ClusterIP) or one backend (type Headless), with its location.
type Endpoint struct {
	// addresses of the endpoint: IPv4, IPv6 or both; 1 to 100.
	// +listType=set
	Addresses []string `json:"addresses"`

	// hostname, a DNS label, gives a headless endpoint the name <hostname>.<cluster>.<service>.<namespace>.svc.global.
	// Endpoints with the same hostname share the name. Without a hostname, the address with dashes takes its place.
	// +optional
	Hostname *string `json:"hostname,omitempty"`

	// targetRef is the object behind the endpoint, in the endpoint's own cluster. For information only.
	// +optional
	TargetRef *corev1.ObjectReference `json:"targetRef,omitempty"`

	// cluster of the endpoint. Empty means none: the endpoint then has no name below a cluster's, and no cluster's health
	// affects it.
	// +optional
	Cluster string `json:"cluster,omitempty"`

	// zone of the endpoint. Empty means unknown, which matches no zone.
	// +optional
	Zone string `json:"zone,omitempty"`

	// region of the endpoint. Empty means unknown, which matches no region.
	// +optional
	Region string `json:"region,omitempty"`

	// ready is whether the endpoint takes traffic, like an EndpointSlice's conditions.ready. Defaults to true (clusterset: an
	// addition to FabDNS's schema).
	// +optional
	Ready *bool `json:"ready,omitempty"`

	// ports that this endpoint listens on, if they differ from the service's: a headless client connects to the endpoint
	// itself, so SRV records need the endpoint's port. Defaults to the service's ports (clusterset: an addition to FabDNS's
	// schema).
	// +kubebuilder:validation:MaxItems=100
	// +listType=atomic
	// +optional
	Ports []EndpointPort `json:"ports,omitempty"`
}

// IsReady reports whether the endpoint takes traffic, which is the default.
func (e *Endpoint) IsReady() bool { return e.Ready == nil || *e.Ready }

// EndpointPort is a port that one endpoint listens on (clusterset: an addition to FabDNS's schema).
type EndpointPort struct {
	// name of the service's port that this port belongs to. Empty for a service with a single unnamed port.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Name string `json:"name,omitempty"`

	// protocol is TCP, UDP or SCTP. Defaults to TCP.
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

	// protocol is TCP, UDP or SCTP. Defaults to TCP.
	// +kubebuilder:default=TCP
	// +optional
	Protocol corev1.Protocol `json:"protocol,omitempty"`

	// appProtocol is a hint at the application protocol of the port, as in a Service. DNS doesn't read it.
	// +optional
	AppProtocol *string `json:"appProtocol,omitempty"`

	// port number, 1 to 65535.
	// +optional
	Port int32 `json:"port,omitempty"`
}

// GlobalServiceStatus is set by the importer on a GlobalService that it wrote and that can't hold all endpoints. Otherwise it
// is empty: the spec has all of them.
type GlobalServiceStatus struct {
	// truncatedEndpoints is how many exported endpoints did not fit into the spec, which holds 4096 and has ready ones first, then by cluster
	// and address.
	// +optional
	TruncatedEndpoints int32 `json:"truncatedEndpoints,omitempty"`
}

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
