package exporter

import (
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

// exportable returns those of a Service's EndpointSlices that hold this cluster's own endpoints, by IP address.
//
// Slices that came from another cluster must stay out: exported again, they would be imported again where they came from,
// as endpoints of ours, for ever. Slices of type FQDN have no addresses to answer a query with.
func exportable(all []discoveryv1.EndpointSlice) []discoveryv1.EndpointSlice {
	return slices.DeleteFunc(slices.Clone(all), func(s discoveryv1.EndpointSlice) bool {
		_, imported := s.Labels[api.LabelServiceName]
		return imported ||
			s.Labels[api.LabelEndpointSliceManagedBy] == api.EndpointSliceManagedBy ||
			s.AddressType == discoveryv1.AddressTypeFQDN
	})
}

// exportedEndpoints returns the records of one slice, before anything unfit is taken out: one for every
// api.MaxExportedEndpoints of its endpoints, so that none gets larger than a watch event should be. Of an endpoint goes
// what means the same in every cluster; nodes and pods are names in this one only.
func exportedEndpoints(src Source, slice discoveryv1.EndpointSlice) []clustersetv1alpha1.ExportedEndpoints {
	var records []clustersetv1alpha1.ExportedEndpoints
	for part := range slices.Chunk(slice.Endpoints, api.MaxExportedEndpoints) {
		name := api.ExportedEndpointsName(src.Key.Namespace, src.Key.Name, slice.Name, len(records))
		record := clustersetv1alpha1.ExportedEndpoints{
			ObjectMeta: recordMeta(src, name),
			Spec: clustersetv1alpha1.ExportedEndpointsSpec{
				ServiceNamespace: src.Key.Namespace,
				ServiceName:      src.Key.Name,
				AddressType:      slice.AddressType,
				Ports:            slice.Ports,
			},
		}
		for _, e := range part {
			record.Spec.Endpoints = append(record.Spec.Endpoints, discoveryv1.Endpoint{
				Addresses:  e.Addresses,
				Conditions: e.Conditions,
				Hostname:   e.Hostname,
				Zone:       e.Zone,
			})
		}
		records = append(records, record)
	}
	return records
}
