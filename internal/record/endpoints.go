package record

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

// Exportable returns those of a Service's EndpointSlices that have this cluster's own endpoints, by IP address.
//
// Slices that came from another cluster must be left out: if they were exported, that cluster would import them as our
// endpoints, and so on forever. Slices of type FQDN have no addresses to answer a query with.
func Exportable(all []discoveryv1.EndpointSlice) []discoveryv1.EndpointSlice {
	return slices.DeleteFunc(slices.Clone(all), func(s discoveryv1.EndpointSlice) bool {
		return s.Labels[api.LabelEndpointSliceManagedBy] == api.EndpointSliceManagedBy ||
			OtherSystem(s.Labels) != "" || s.AddressType == discoveryv1.AddressTypeFQDN
	})
}

// systems are the domains of controllers that put other clusters' endpoints behind a Service itself. Only Cilium's name the cluster in a label.
var systems = []string{".cilium.io", ".karmada.io", ".liqo.io", ".submariner.io"}

// OtherSystem returns which controller of another multi-cluster system wrote an EndpointSlice with these labels, empty if none did. Who else writes
// slices, a user for a Service without a selector for example, writes this cluster's. Rule C4 of docs/spec/control-plane.md.
func OtherSystem(labels map[string]string) string {
	by := labels[api.LabelEndpointSliceManagedBy]
	_, imported := labels[api.LabelServiceName]
	_, elsewhere := labels[api.LabelSourceCluster]
	known := func(domain string) bool { return strings.HasSuffix(by, domain) }
	if by == api.EndpointSliceManagedBy || !imported && !elsewhere && !slices.ContainsFunc(systems, known) {
		return ""
	}
	return cmp.Or(by, "another system")
}

// Endpoints returns the records of one slice of a cluster's service, before anything invalid is removed: one for every
// api.MaxExportedEndpoints of its endpoints, so that none is too large for a watch event. Only fields that mean the same in
// every cluster are included; nodes and pods are names in this one only.
func Endpoints(cluster string, service types.NamespacedName, slice discoveryv1.EndpointSlice) []clustersetv1alpha1.ExportedEndpoints {
	var records []clustersetv1alpha1.ExportedEndpoints
	for part := range slices.Chunk(slice.Endpoints, api.MaxExportedEndpoints) {
		name := api.ExportedEndpointsName(service.Namespace, service.Name, slice.Name, len(records))
		record := clustersetv1alpha1.ExportedEndpoints{
			ObjectMeta: Meta(cluster, service, name),
			Spec: clustersetv1alpha1.ExportedEndpointsSpec{
				ServiceNamespace: service.Namespace,
				ServiceName:      service.Name,
				AddressType:      slice.AddressType,
				Ports:            clustersetv1alpha1.PortsOf(slice.Ports),
				Endpoints:        clustersetv1alpha1.EndpointsOf(part),
			},
		}
		if at, ok := api.TriggerTime(slice.Annotations); ok {
			record.Annotations = map[string]string{corev1.EndpointsLastChangeTriggerTime: at.UTC().Format(time.RFC3339Nano)}
		}
		records = append(records, record)
	}
	return records
}

// Meta returns the metadata of a record on the hub.
func Meta(cluster string, service types.NamespacedName, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: api.MemberNamespace(cluster),
		Name:      name,
		Labels: map[string]string{
			api.LabelManagedBy:         api.ManagedByExporter,
			api.LabelCluster:           cluster,
			api.LabelExportedNamespace: service.Namespace,
			api.LabelExportedName:      service.Name,
		},
	}
}
