package v1alpha1

import (
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

	// endpoints of the slice, ready or not: addresses, hostname, conditions and zone. The exporter leaves out fields that have
	// a meaning only in its own cluster (nodeName, targetRef, hints), and importers ignore them.
	// +kubebuilder:validation:MaxItems=100
	// +listType=atomic
	// +optional
	Endpoints []discoveryv1.Endpoint `json:"endpoints,omitempty"`

	// ports that every endpoint listens on.
	// +kubebuilder:validation:MaxItems=100
	// +listType=atomic
	// +optional
	Ports []discoveryv1.EndpointPort `json:"ports,omitempty"`
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
