package desired

import (
	"encoding/json"
	"slices"
	"strconv"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/door"
	"github.com/clusterset/clusterset/internal/merge"
)

// The records that a service was last imported from are stored in its EndpointSlices, for the time when the hub has lost them, or is away
// (importer/effective). A slice has the endpoints of its record, and an annotation with the record's name. The first slice of each cluster
// also has an annotation with the cluster's ExportedService. So nothing more is written than before, and a change of one cluster's record
// changes only slices of that cluster. What is restored goes through the same checks as what is on the hub.

// StoredKeys are the annotations of a slice in which records are stored.
var StoredKeys = []string{api.AnnotationExport, api.AnnotationRecord, api.AnnotationExternal}

// Stored returns those of a slice's annotations in which records are stored.
func Stored(s *discoveryv1.EndpointSlice) map[string]string {
	stored := map[string]string{}
	for _, key := range StoredKeys {
		if value, ok := s.Annotations[key]; ok {
			stored[key] = value
		}
	}
	return stored
}

// placeholder is the origin of the slice of a cluster without endpoints, for SliceName. No record is called this: their names have dots.
const placeholder = "export"

// stored returns the annotations of a record's slice.
func (r *record) stored() map[string]string {
	all := map[string]string{api.AnnotationRecord: r.of.Name}
	if r.stores {
		all[api.AnnotationExport] = r.cluster.export.Text
	}
	if r.external {
		all[api.AnnotationExternal] = strconv.Itoa(r.behind)
	}
	if !r.of.Triggered.IsZero() {
		all[triggerTime] = r.of.Triggered.Format(time.RFC3339Nano)
	}
	return all
}

// placeholders returns a slice for each cluster that exports the service without any record of endpoints.
func (w *work) placeholders() (all []*discoveryv1.EndpointSlice) {
	for _, c := range w.clusters {
		if len(c.records) > 0 {
			continue
		}
		s := &discoveryv1.EndpointSlice{
			ObjectMeta: w.objectMeta(SliceName(c.name, w.in.Key.Name, placeholder)), AddressType: discoveryv1.AddressTypeIPv4,
			Ports: []discoveryv1.EndpointPort{}, Endpoints: []discoveryv1.Endpoint{},
		}
		s.Labels[api.LabelSourceCluster], s.Labels[api.LabelServiceName] = c.name, w.in.Key.Name
		s.Labels[api.LabelEndpointSliceManagedBy] = api.EndpointSliceManagedBy
		s.Annotations = map[string]string{api.AnnotationExport: c.export.Text}
		w.unroute(s)
		all = append(all, s)
	}
	return all
}

// FromRecord reports whether one of the importer's slices has the endpoints of an ExportedEndpoints, and not a ClusterIP.
func FromRecord(s *discoveryv1.EndpointSlice) bool { return s.Labels[api.LabelServiceName] != "" }

// StoredService returns the export of a cluster that a slice stores, or nil. Its revision is the stored one, whatever the time.
func StoredService(service types.NamespacedName, s *discoveryv1.EndpointSlice) *door.Export {
	text := s.Annotations[api.AnnotationExport]
	if text == "" || !FromRecord(s) {
		return nil
	}
	record := &clustersetv1alpha1.ExportedService{ObjectMeta: metav1.ObjectMeta{
		Namespace: api.MemberNamespace(s.Labels[api.LabelSourceCluster]), Name: api.ExportedServiceName(service.Namespace, service.Name),
	}}
	if json.Unmarshal([]byte(text), &record.Spec) != nil || record.Spec.ServiceNamespace != service.Namespace || record.Spec.ServiceName != service.Name {
		return nil // somebody else wrote it
	}
	return door.CompactService(record, time.UnixMilli(record.Spec.Revision))
}

// StoredEndpoints returns the record that the pieces of a slice were made of, as far as they say, or nil. Hints and node names are the
// importer's, and left out. A zone may be (see placed), but nothing tells it from the endpoint's own, so it stays as it was, whatever becomes of
// the cluster's. export is the cluster's; it tells which port has no name there.
func StoredEndpoints(service types.NamespacedName, pieces []*discoveryv1.EndpointSlice, export *door.Export) *door.Endpoints {
	cluster, name := pieces[0].Labels[api.LabelSourceCluster], pieces[0].Annotations[api.AnnotationRecord]
	if name == "" || SliceName(cluster, service.Name, name) != WholeSlice(pieces[0].Name) {
		return nil
	}
	e := &clustersetv1alpha1.ExportedEndpoints{
		ObjectMeta: metav1.ObjectMeta{Namespace: api.MemberNamespace(cluster), Name: name},
		Spec: clustersetv1alpha1.ExportedEndpointsSpec{
			ServiceNamespace: service.Namespace, ServiceName: service.Name, AddressType: pieces[0].AddressType,
		},
	}
	if behind, ok := pieces[0].Annotations[api.AnnotationExternal]; ok {
		n, _ := strconv.ParseInt(behind, 10, 32) // 0 if somebody else wrote it
		e.Spec.External, e.Spec.Behind = true, int32(n)
	}
	ports, addresses := map[string]bool{}, map[string]bool{}
	for _, s := range pieces {
		for _, p := range s.Ports {
			exported := exportedName(p, export)
			if p.Name = &exported; !ports[exported] {
				ports[exported] = true
				e.Spec.Ports = append(e.Spec.Ports, clustersetv1alpha1.EndpointPort(p))
			}
		}
		for i := range s.Endpoints {
			if endpoint := &s.Endpoints[i]; len(endpoint.Addresses) > 0 && !addresses[endpoint.Addresses[0]] {
				addresses[endpoint.Addresses[0]] = true
				e.Spec.Endpoints = append(e.Spec.Endpoints, clustersetv1alpha1.EndpointOf(endpoint))
			}
		}
	}
	return door.CompactEndpoints(e)
}

// exportedName returns the name that a slice's port has in its cluster: none, if its export has a port without a name that is called this
// here (C14).
func exportedName(p discoveryv1.EndpointPort, export *door.Export) string {
	if p.Name == nil {
		return ""
	}
	nameless := export != nil && export.Spec != nil && slices.ContainsFunc(export.Spec.Ports, func(e clustersetv1alpha1.ServicePort) bool {
		return e.Name == "" && (p.Protocol == nil || *p.Protocol == e.Protocol) && merge.IsGenerated(*p.Name, e.Protocol, e.Port)
	})
	if nameless {
		return ""
	}
	return *p.Name
}
