package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterset/clusterset/api"
)

// ExportedEndpoints are up to 100 endpoints of one EndpointSlice of an exported Service. They are in the namespace of its
// ExportedService, and their names begin with its name and a dot (api.ExportedEndpointsName). Longer slices are split.
//
// +genclient
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=exportedendpoints,singular=exportedendpoints,shortName=exep,categories=clusterset
// +kubebuilder:printcolumn:name="Service-Namespace",type="string",JSONPath=".spec.serviceNamespace"
// +kubebuilder:printcolumn:name="Service",type="string",JSONPath=".spec.serviceName"
// +kubebuilder:printcolumn:name="AddressType",type="string",JSONPath=".spec.addressType"
// +kubebuilder:printcolumn:name="Endpoints",type="string",JSONPath=".spec.endpoints[*].addresses[*]"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
// +kubebuilder:validation:XValidation:rule="self.metadata.name.startsWith(self.spec.serviceName + '.' + self.spec.serviceNamespace + '.')",message="the name must begin with <serviceName>.<serviceNamespace> and a dot"
type ExportedEndpoints struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec has the endpoints and the service they belong to.
	Spec ExportedEndpointsSpec `json:"spec"`
}

// ExportedEndpointsSpec has endpoints of one address family and one set of ports, like an EndpointSlice.
type ExportedEndpointsSpec struct {
	// serviceNamespace is the namespace of the Service.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	ServiceNamespace string `json:"serviceNamespace"`

	// serviceName is the name of the Service.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	ServiceName string `json:"serviceName"`

	// addressType is IPv4 or IPv6. Slices of type FQDN are not exported.
	// +kubebuilder:validation:Enum=IPv4;IPv6
	AddressType discoveryv1.AddressType `json:"addressType"`

	// endpoints of the slice, ready or not.
	// +kubebuilder:validation:MaxItems=100
	// +listType=atomic
	// +optional
	Endpoints []Endpoint `json:"endpoints,omitempty"`

	// ports that every endpoint listens on.
	// +kubebuilder:validation:MaxItems=100
	// +listType=atomic
	// +optional
	Ports []EndpointPort `json:"ports,omitempty"`

	// external says that the addresses are external ones of the Service itself, such as a load balancer's or its cluster's nodes', with
	// the ports that it has there. Clusters of other networks (MemberCluster spec.network) use them, and those of the same one don't.
	// +optional
	External bool `json:"external,omitempty"`

	// behind is how many ready endpoints are behind external addresses.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000
	// +optional
	Behind int32 `json:"behind,omitempty"`
}

// Endpoint is the part of an EndpointSlice's endpoint that means the same in every cluster. With the rest, kube-proxy would take an endpoint
// for local if its node had the name of a local one, a mesh would use the identity of a local pod that a targetRef happens to name, and
// hints would steer traffic.
type Endpoint struct {
	// addresses of the endpoint, of the family that the address type says: 1 to 4. EndpointSlices of Services with a selector have one, and
	// kube-proxy uses only the first.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4
	// +kubebuilder:validation:items:MaxLength=45
	// +kubebuilder:validation:items:Pattern=`^[0-9a-fA-F:.]+$`
	// +listType=atomic
	Addresses []string `json:"addresses"`

	// conditions: ready, serving and terminating.
	// +optional
	Conditions discoveryv1.EndpointConditions `json:"conditions,omitempty"`

	// hostname of the endpoint, a DNS label.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^$|^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +optional
	Hostname *string `json:"hostname,omitempty"`

	// zone that the endpoint is in: at most 63 characters, like the label of a node.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Zone *string `json:"zone,omitempty"`
}

// EndpointOf returns what can be exported of an EndpointSlice's endpoint. It shares memory with it.
func EndpointOf(e *discoveryv1.Endpoint) Endpoint {
	return Endpoint{Addresses: e.Addresses, Conditions: e.Conditions, Hostname: e.Hostname, Zone: e.Zone}
}

// EndpointsOf is EndpointOf for a list.
func EndpointsOf(all []discoveryv1.Endpoint) []Endpoint {
	endpoints := make([]Endpoint, len(all))
	for i := range all {
		endpoints[i] = EndpointOf(&all[i])
	}
	return endpoints
}

// InSlice returns the endpoint as an EndpointSlice has it. It shares memory with it.
func (e *Endpoint) InSlice() discoveryv1.Endpoint {
	return discoveryv1.Endpoint{Addresses: e.Addresses, Conditions: e.Conditions, Hostname: e.Hostname, Zone: e.Zone}
}

// EndpointPort is a port of an EndpointSlice. It converts to a discoveryv1.EndpointPort.
//
// +structType=atomic
type EndpointPort struct {
	// name of the Service's port, a DNS label. It may be empty if this is the only port.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^$|^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +optional
	Name *string `json:"name,omitempty"`

	// protocol is TCP, UDP or SCTP. Defaults to TCP.
	// +kubebuilder:validation:Enum=TCP;UDP;SCTP
	// +optional
	Protocol *corev1.Protocol `json:"protocol,omitempty"`

	// port number, 1 to 65535.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +optional
	Port *int32 `json:"port,omitempty"`

	// appProtocol is the Service's hint at the application protocol of the port.
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^[-._/a-zA-Z0-9]*$`
	// +optional
	AppProtocol *string `json:"appProtocol,omitempty"`
}

// PortsOf returns the ports of an EndpointSlice. They share memory.
func PortsOf(all []discoveryv1.EndpointPort) []EndpointPort {
	ports := make([]EndpointPort, len(all))
	for i, p := range all {
		ports[i] = EndpointPort(p)
	}
	return ports
}

// SourceCluster returns the member that the record comes from, by its namespace. ok is false if that isn't a member's
// namespace.
func (e *ExportedEndpoints) SourceCluster() (string, bool) {
	return api.ClusterOfNamespace(e.Namespace)
}

// ExportedEndpointsList is a list of ExportedEndpoints.
//
// +kubebuilder:object:root=true
type ExportedEndpointsList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the ExportedEndpoints.
	Items []ExportedEndpoints `json:"items"`
}
