package desired

import (
	"cmp"
	"encoding/json"
	"hash/maphash"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
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

// exportedName returns the name that a slice's port has in its cluster: none, if its export has a port without a name that is called this here (C14).
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

// An agent's cache has of the importer's own EndpointSlices what finds and compares them: in place of their content, which takes a third of the memory
// of an agent that imports much, digests of it. Who needs what is stored in a slice reads that from the API server.

// digestKey is the annotation with the digests, which only the cache has.
const digestKey = "cache.clusterset.dev/digests"

var digestSeed = maphash.MakeSeed()

// Strip is a transform of a cache. It takes the managers of fields from each object, except where Taken reads them, and from the importer's
// EndpointSlices their content.
func Strip(o any) (any, error) {
	svc, is := o.(*corev1.Service)
	if managed, ok := o.(metav1.Object); ok && !(is && Named(svc)) {
		managed.SetManagedFields(nil)
	}
	s, ok := o.(*discoveryv1.EndpointSlice)
	if !ok || !Owned(s) || Stripped(s) {
		return o, nil
	}
	content, endpoints := digests(s)
	s.Endpoints, s.Ports = nil, nil
	for _, key := range StoredKeys {
		delete(s.Annotations, key)
	}
	metav1.SetMetaDataAnnotation(&s.ObjectMeta, digestKey, content+" "+endpoints)
	return s, nil
}

// Stripped reports whether Strip took the content of a slice.
func Stripped(s *discoveryv1.EndpointSlice) bool { return s.Annotations[digestKey] != "" }

// CacheKeys are the annotations of a slice that are never written.
var CacheKeys = []string{digestKey}

// SameContent reports whether two slices have the same endpoints, ports and stored records. Either may be stripped.
func SameContent(a, b *discoveryv1.EndpointSlice) bool {
	is, _ := digests(a)
	other, _ := digests(b)
	return is == other
}

// sameEndpoints reports whether two slices have the same endpoints by what their own cluster says of them: addresses and conditions. Zones and hints may
// be ours. Either may be stripped.
func sameEndpoints(a, b *discoveryv1.EndpointSlice) bool {
	_, is := digests(a)
	_, other := digests(b)
	return is == other
}

func digests(s *discoveryv1.EndpointSlice) (content, endpoints string) {
	if Stripped(s) {
		content, endpoints, _ = strings.Cut(s.Annotations[digestKey], " ")
		return content, endpoints
	}
	is := discoveryv1.EndpointSlice{Endpoints: s.Endpoints, Ports: s.Ports}
	is.Annotations = Stored(s)
	var all, ours maphash.Hash
	all.SetSeed(digestSeed)
	ours.SetSeed(digestSeed)
	if data, err := is.Marshal(); err == nil { // it has only strings and numbers
		_, _ = all.Write(data)
	}
	for i := range s.Endpoints {
		c := s.Endpoints[i].Conditions
		maphash.WriteComparable(&ours, [3]bool{c.Ready == nil || *c.Ready, c.Serving == nil || *c.Serving, c.Terminating != nil && *c.Terminating})
		for _, address := range s.Endpoints[i].Addresses {
			maphash.WriteComparable(&ours, address)
		}
	}
	return strconv.FormatUint(all.Sum64(), 36), strconv.FormatUint(ours.Sum64(), 36)
}

// triggerTime is the annotation that states when a slice's endpoints changed.
const triggerTime = corev1.EndpointsLastChangeTriggerTime

// TriggerTime returns the annotation that states when a slice's endpoints changed, if writing the slice brings such a change here. is is the slice
// that is there, or nil. No other write may have it: DNS servers and kube-proxies that measure how long a change takes regard every write as the end
// of the stated change. So there is none if only rank or hints changed, or if the change was too long ago.
func TriggerTime(is, want *discoveryv1.EndpointSlice, now time.Time) map[string]string {
	stated := want.Annotations[triggerTime]
	if _, recent := api.RecentTriggerTime(want.Annotations, now); !recent {
		return nil
	}
	if is != nil && (is.Annotations[triggerTime] == stated || sameEndpoints(is, want)) {
		return nil
	}
	return map[string]string{triggerTime: stated}
}

// Owned reports whether the importer wrote the object. The importer never changes or deletes any other object.
func Owned(o metav1.Object) bool { return o.GetLabels()[api.LabelManagedBy] == api.ManagedByImporter }

// Labels returns the labels that mark an object as the importer's.
func Labels() map[string]string {
	return map[string]string{api.LabelManagedBy: api.ManagedByImporter}
}

// ServiceOf returns the service that a record on the hub, or a local object of the importer, belongs to. A derived Service or a slice that no
// service uses as it is belongs to one of its own name, which no cluster exports.
func ServiceOf(o metav1.Object) (types.NamespacedName, bool) {
	switch o := o.(type) {
	case *clustersetv1alpha1.ExportedService:
		return types.NamespacedName{Namespace: o.Spec.ServiceNamespace, Name: o.Spec.ServiceName}, true
	case *clustersetv1alpha1.ExportedEndpoints:
		return types.NamespacedName{Namespace: o.Spec.ServiceNamespace, Name: o.Spec.ServiceName}, true
	case *discoveryv1.EndpointSlice, *corev1.Service:
		if !Owned(o) {
			return types.NamespacedName{}, false
		}
		name := cmp.Or(o.GetLabels()[api.LabelServiceName], o.GetLabels()[api.LabelExtends], metaOwner(o)) // the last one of a slice of ClusterIPs
		service, derived := o.(*corev1.Service)
		switch {
		case !derived && name == "" && o.GetLabels()[api.LabelEndpointSliceManagedBy] == api.EndpointSliceManagedBy,
			derived && name != "" && service.Name != api.DerivedServiceName(service.Namespace, name):
			name = o.GetName() // restored from a backup, without its owner or in another namespace
		}
		return types.NamespacedName{Namespace: o.GetNamespace(), Name: name}, name != ""
	default: // ServiceImport, GlobalService. One that someone else owns may block the importer's, or may just have been removed.
		return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}, true
	}
}

// Extends reports whether the importer's slice extends a Service of the cluster's own.
func Extends(s *discoveryv1.EndpointSlice) bool { return s.Labels[api.LabelExtends] != "" }

// metaOwner returns the name of the ServiceImport that owns the object.
func metaOwner(o metav1.Object) string {
	for _, ref := range o.GetOwnerReferences() {
		if ref.Kind == "ServiceImport" {
			return ref.Name
		}
	}
	return ""
}
