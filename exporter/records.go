package exporter

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/nodes"
)

// Source is everything that a service's records are computed from: the current objects of the member's API server.
type Source struct {
	// Cluster is the member's name.
	Cluster string
	// Key is the namespace and name of the service.
	Key types.NamespacedName
	// Service and Export are nil if they don't exist.
	Service *corev1.Service
	Export  *mcsv1beta1.ServiceExport
	// Slices are the Service's EndpointSlices.
	Slices []discoveryv1.EndpointSlice
	// Known are the clusters and communities of the set, nil if they aren't known.
	Known []string
	// Marked is set if the namespace has the mark that exports its Services. See marked.
	Marked bool
	// Excluded is set if the agent exports nothing from the namespace.
	Excluded bool
	// External is what the Service's external addresses are found with.
	External External
	// Full is how many other services of the namespace are exported, if that is as many as the agent exports; otherwise 0.
	Full int
}

// External is what external addresses are found with, apart from the objects of the service.
type External struct {
	// Nodes are the cluster's nodes. Nil means that they aren't known.
	Nodes []nodes.Node
	// Resolve returns the addresses of a name, none if it has never been resolved. Nil resolves none.
	Resolve func(host string) []netip.Addr
	// CIDRs are spec.externalCIDRs of the cluster.
	CIDRs []string
	// Kept means that those on the hub stay: the ServiceExport, which may have stated them, is gone, and the service stays exported.
	Kept bool
	// Last are the records with external addresses that are on the hub. They are kept while the current ones aren't known.
	Last []clustersetv1alpha1.ExportedEndpoints
}

// Records are a service's records on the hub.
type Records struct {
	Service   *clustersetv1alpha1.ExportedService
	Endpoints []clustersetv1alpha1.ExportedEndpoints
}

// Desired is what should be on the hub, and what to report about it.
type Desired struct {
	// Service is nil if nothing is to be exported. Then Endpoints is empty too.
	Service   *clustersetv1alpha1.ExportedService
	Endpoints []clustersetv1alpha1.ExportedEndpoints
	// external is where clusters of other networks reach the Service, and noExternal why they don't, with the reason of the condition.
	external           []clustersetv1alpha1.ExportedEndpoints
	noExternal, reason string
	// Refused says why a ServiceExport has no Service.
	Refused *Refusal
	// LeftOut is what can't be exported of the Service, its slices or its ServiceExport, while the rest is.
	LeftOut api.LeftOut
}

// Refusal is why a ServiceExport isn't valid.
type Refusal struct {
	Reason  mcsv1beta1.ServiceExportConditionReason
	Message string
}

// keyOf returns the service that a record of ours is about, by the record's name: we remove the records in our namespace, whatever they say of
// themselves. It is empty if no service's record has that name.
func keyOf(o client.Object) types.NamespacedName {
	namespace, name, _ := api.ParseExportedServiceName(o.GetName())
	if _, ok := o.(*clustersetv1alpha1.ExportedEndpoints); ok {
		namespace, name, _, _ = api.ParseExportedEndpointsName(o.GetName())
	}
	return types.NamespacedName{Namespace: namespace, Name: name}
}
