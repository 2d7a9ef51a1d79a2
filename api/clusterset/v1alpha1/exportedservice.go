package v1alpha1

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
)

// ExportedService is one cluster's export of a Service, without its endpoints. It is in the member's namespace on the hub,
// under the name "<service>.<namespace>" (api.ExportedServiceName). Only the member's exporter writes it. Every importer merges
// the ExportedServices of a service into one ServiceImport (KEP-1645, "Constraints and Conflict Resolution").
//
// +genclient
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=exsvc,categories=clusterset
// +kubebuilder:printcolumn:name="Service-Namespace",type="string",JSONPath=".spec.serviceNamespace"
// +kubebuilder:printcolumn:name="Service",type="string",JSONPath=".spec.serviceName"
// +kubebuilder:printcolumn:name="Type",type="string",JSONPath=".spec.type"
// +kubebuilder:printcolumn:name="IPs",type="string",JSONPath=".spec.clusterIPs",priority=1
// +kubebuilder:printcolumn:name="Exported",type="date",JSONPath=".spec.exportedAt",description="Time since the service was exported"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
// +kubebuilder:validation:XValidation:rule="self.metadata.name == self.spec.serviceName + '.' + self.spec.serviceNamespace",message="the name must be <serviceName>.<serviceNamespace>"
type ExportedService struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec describes the exported Service.
	Spec ExportedServiceSpec `json:"spec"`
}

// ExportedServiceSpec describes one cluster's Service and ServiceExport.
//
// +kubebuilder:validation:XValidation:rule="self.type != 'Headless' || !has(self.clusterIPs) || size(self.clusterIPs) == 0",message="a Headless service has no clusterIPs"
type ExportedServiceSpec struct {
	// serviceNamespace is the namespace of the Service, in its own cluster and in every importing one.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	ServiceNamespace string `json:"serviceNamespace"`

	// serviceName is the name of the Service.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	ServiceName string `json:"serviceName"`

	// type is ClusterSetIP or Headless. Services of type ClusterIP, NodePort and LoadBalancer are exported as ClusterSetIP.
	// +kubebuilder:validation:Enum=ClusterSetIP;Headless
	Type mcsv1beta1.ServiceImportType `json:"type"`

	// ports of the Service, in the Service's order.
	// +kubebuilder:validation:MaxItems=100
	// +listType=map
	// +listMapKey=port
	// +listMapKey=protocol
	// +optional
	Ports []ServicePort `json:"ports,omitempty"`

	// clusterIPs of the Service, in the Service's order; none if it is Headless. Importers with --data-path=clusterips send
	// traffic there, and GlobalServices of type ClusterIP have them as endpoints.
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:validation:items:MaxLength=45
	// +kubebuilder:validation:items:Pattern=`^[0-9a-fA-F:.]+$`
	// +listType=atomic
	// +optional
	ClusterIPs []string `json:"clusterIPs,omitempty"`

	// ipFamilies of the Service, in the Service's order: IPv4, IPv6.
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:validation:items:Enum=IPv4;IPv6
	// +listType=atomic
	// +optional
	IPFamilies []corev1.IPFamily `json:"ipFamilies,omitempty"`

	// sessionAffinity is None or ClientIP. Defaults to None.
	// +kubebuilder:validation:Enum=None;ClientIP
	// +optional
	SessionAffinity corev1.ServiceAffinity `json:"sessionAffinity,omitempty"`

	// sessionAffinityConfig is how long a client keeps its backend with sessionAffinity ClientIP, 1 to 86400 s.
	// +optional
	SessionAffinityConfig *corev1.SessionAffinityConfig `json:"sessionAffinityConfig,omitempty"`

	// internalTrafficPolicy is Cluster or Local. Defaults to Cluster.
	// +kubebuilder:validation:Enum=Cluster;Local
	// +optional
	InternalTrafficPolicy *corev1.ServiceInternalTrafficPolicy `json:"internalTrafficPolicy,omitempty"`

	// trafficDistribution of the Service: PreferClose, PreferSameZone or PreferSameNode. Absent means no preference.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	TrafficDistribution *string `json:"trafficDistribution,omitempty"`

	// policy is which of the service's endpoints are used from which location, as stated by the annotations of the
	// ServiceExport.
	// +optional
	Policy *ServicePolicy `json:"policy,omitempty"`

	// share is how many per cent of the cluster's ready endpoints are used as usual; the others are used as those of a drained cluster.
	// Defaults to 100.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	Share *int32 `json:"share,omitempty"`

	// exportTo lists the clusters that import the service, by their names or by communities that they are in. The exporting
	// cluster always imports it. Importers obey the list, but it doesn't limit what they can read. If it is empty, all import it.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +listType=set
	// +optional
	ExportTo []string `json:"exportTo,omitempty"`

	// exportedLabels are spec.exportedLabels of the ServiceExport.
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(k, size(k) <= 317 && size(self[k]) <= 63)",message="a label has a key of at most 317 characters and a value of at most 63"
	// +optional
	ExportedLabels map[string]string `json:"exportedLabels,omitempty"`

	// exportedAnnotations are spec.exportedAnnotations of the ServiceExport, of at most 16 KiB together.
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.map(k, size(k) + size(self[k])).sum() <= 16384",message="annotations have at most 16384 characters together"
	// +optional
	ExportedAnnotations map[string]string `json:"exportedAnnotations,omitempty"`

	// exportedAt is when the ServiceExport was created, to the second, by its own cluster's clock. If exports conflict, the
	// oldest wins.
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=date-time
	// +kubebuilder:validation:MaxLength=64
	ExportedAt metav1.Time `json:"exportedAt"`

	// revision is when the record was last written, in milliseconds by its exporter's clock, and more than the last one. It orders the states of
	// a record on a hub that may be restored from a backup. One that is more than a day ahead of the reader's clock counts as 0.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Revision int64 `json:"revision,omitempty"`

	// withdrawn means that the service isn't exported any more. The record is empty otherwise, and stays for a day to say so: that a record is
	// missing says nothing.
	// +optional
	Withdrawn bool `json:"withdrawn,omitempty"`

	// endpoints are the service's ExportedEndpoints: what their names have after this record's name and a dot.
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=20
	// +kubebuilder:validation:items:Pattern=`^[0-9a-z]([-0-9a-z]*[0-9a-z])?$`
	// +listType=atomic
	// +optional
	Endpoints []string `json:"endpoints,omitempty"`
}

// MaxAhead is how far the revision of a record may be ahead of the reader's clock. A thief's largest number has an effect for no longer.
const MaxAhead = 24 * time.Hour

// RevisionAt returns the revision, or 0 if it is too far ahead of a reader's clock.
func (s *ExportedServiceSpec) RevisionAt(now time.Time) int64 {
	if s.Revision > now.Add(MaxAhead).UnixMilli() {
		return 0
	}
	return s.Revision
}

// Exports reports whether the record says that a service is exported: there is one, and it isn't withdrawn.
func (e *ExportedService) Exports() bool { return e != nil && !e.Spec.Withdrawn }

// ServicePolicy is which of a service's endpoints are used from which location. For what it leaves out, the configuration of
// each DNS server and member agent applies.
type ServicePolicy struct {
	// prefer lists the preferred tiers of endpoints, the most preferred first: one or more of cluster, zone and region,
	// separated by blanks. "none" means no preference: all endpoints are used alike.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^(none|(cluster|zone|region)( (cluster|zone|region)){0,2})$`
	// +optional
	Prefer string `json:"prefer,omitempty"`

	// boundary is cluster, zone or region. Endpoints outside the client's are never used.
	// +kubebuilder:validation:Enum=cluster;zone;region
	// +optional
	Boundary string `json:"boundary,omitempty"`

	// minReady is how many ready endpoints a tier needs, 1 to 100000. If it has fewer, the next tier is used as well. Defaults
	// to 1.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	// +optional
	MinReady int32 `json:"minReady,omitempty"`
}

// ServicePort is a port of an exported Service.
type ServicePort struct {
	// name of the port, a DNS label, unique in the service. It may be empty if this is the only port.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^$|^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +optional
	Name string `json:"name,omitempty"`

	// protocol is TCP, UDP or SCTP. Defaults to TCP.
	// +kubebuilder:validation:Enum=TCP;UDP;SCTP
	// +kubebuilder:default=TCP
	// +optional
	Protocol corev1.Protocol `json:"protocol,omitempty"`

	// appProtocol is the Service's hint at the application protocol of the port.
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^[-._/a-zA-Z0-9]*$`
	// +optional
	AppProtocol *string `json:"appProtocol,omitempty"`

	// port number of the Service, 1 to 65535.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port"`

	// targetPort is the number or name of the port on the backends, for information only: the ports that they listen on are in
	// ExportedEndpoints. Defaults to port.
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=63
	// +optional
	TargetPort *intstr.IntOrString `json:"targetPort,omitempty"`
}

// SourceCluster returns the member that the record comes from, by its namespace. ok is false if that isn't a member's
// namespace.
func (e *ExportedService) SourceCluster() (string, bool) { return api.ClusterOfNamespace(e.Namespace) }

// ExportedServiceList is a list of ExportedServices.
//
// +kubebuilder:object:root=true
type ExportedServiceList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the ExportedServices.
	Items []ExportedService `json:"items"`
}
