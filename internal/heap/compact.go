package heap

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
)

// Compact reduces the memory of an object in a cache; it is the cache's transform (client-go's TransformFunc). It drops the managed fields,
// which nothing reads, and memory that decoding wastes: a decoded list has up to twice the capacity it needs, each string and each list of
// one address is an allocation, a zone with ten endpoints is ten strings, and each condition is a bool of its own. Of a record, which
// another cluster wrote, it also drops what is beyond the bounds (records.go). Nothing else changes. Compact objects share memory, so they
// must not be changed in place, like everything in a cache. No other object has the memory of an object's resource version: the importer
// identifies versions of an object by it (desired.Version).
func Compact(o any) (any, error) {
	switch o := o.(type) {
	case *clustersetv1alpha1.ExportedService:
		boundMetadata(o)
		boundService(o)
	case *clustersetv1alpha1.ExportedEndpoints:
		boundMetadata(o)
		boundEndpoints(o)
	}
	m, err := meta.Accessor(o)
	if err != nil {
		return o, nil //nolint:nilerr // a tombstone
	}
	m.SetManagedFields(nil)
	typed, ok := m.(metav1.ObjectMetaAccessor)
	if !ok {
		return o, nil
	}
	var t texts
	finish := func() {}
	if m, ok := typed.GetObjectMeta().(*metav1.ObjectMeta); ok {
		finish = compactMetadata(m, &t)
	}
	switch o := o.(type) {
	case *discoveryv1.EndpointSlice:
		compactSlice(o, &t)
	case *clustersetv1alpha1.ExportedEndpoints:
		compactRecord(&o.Spec, &t)
	case *fabedgev1alpha1.GlobalService:
		compactGlobal(&o.Spec, &t)
	case *clustersetv1alpha1.ExportedService:
		compactService(&o.Spec, &t)
	case *mcsv1beta1.ServiceImport:
		compactImport(o, &t)
	}
	t.pack()
	finish()
	return o, nil
}

// compactMetadata adds the strings that only this object has to t. The caller calls finish once they are packed.
func compactMetadata(m *metav1.ObjectMeta, t *texts) (finish func()) {
	m.Namespace, m.Labels = shared(m.Namespace), sharedLabels(m.Labels)
	t.add(&m.Name, &m.GenerateName, (*string)(&m.UID), &m.ResourceVersion)
	sharedOwners(m.OwnerReferences)
	for i := range m.OwnerReferences {
		t.add(&m.OwnerReferences[i].Name, (*string)(&m.OwnerReferences[i].UID))
	}
	if m.Annotations == nil {
		return func() {}
	}
	keys, values := make([]string, 0, len(m.Annotations)), make([]string, 0, len(m.Annotations))
	for key, value := range m.Annotations {
		keys, values = append(keys, shared(key)), append(values, value)
	}
	for i := range values {
		t.add(&values[i])
	}
	return func() {
		m.Annotations = make(map[string]string, len(keys))
		for i, key := range keys {
			m.Annotations[key] = values[i]
		}
	}
}

func compactSlice(o *discoveryv1.EndpointSlice, t *texts) {
	o.Ports, o.Endpoints = sharedPorts(&slicePorts, o.Ports), slices.Clone(o.Endpoints)
	n, before := 0, &discoveryv1.Endpoint{}
	for i := range o.Endpoints {
		e := &o.Endpoints[i]
		n += count(e.Addresses, e.Hostname, e.NodeName)
		if !same(e.Zone, before.Zone) {
			n++
		}
		before = e
	}
	l := make(list, 0, n)
	before = &discoveryv1.Endpoint{}
	for i := range o.Endpoints {
		e := &o.Endpoints[i]
		e.Addresses, e.Hostname, e.NodeName, e.Zone = l.hold(e.Addresses), l.point(e.Hostname), l.point(e.NodeName), l.orBefore(e.Zone, before.Zone)
		if sameHints(e.Hints, before.Hints) {
			e.Hints = before.Hints
		}
		sharedConditions(&e.Conditions)
		before = e
	}
	l.addTo(t)
}

func compactRecord(s *clustersetv1alpha1.ExportedEndpointsSpec, t *texts) {
	t.add(&s.ServiceName)
	s.ServiceNamespace, s.AddressType = shared(s.ServiceNamespace), discoveryv1.AddressType(shared(string(s.AddressType)))
	s.Ports, s.Endpoints = sharedPorts(&recordPorts, s.Ports), slices.Clone(s.Endpoints)
	n, before := 0, &clustersetv1alpha1.Endpoint{}
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		n += count(e.Addresses, e.Hostname)
		if !same(e.Zone, before.Zone) {
			n++
		}
		before = e
	}
	l := make(list, 0, n)
	before = &clustersetv1alpha1.Endpoint{}
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		e.Addresses, e.Hostname, e.Zone = l.hold(e.Addresses), l.point(e.Hostname), l.orBefore(e.Zone, before.Zone)
		sharedConditions(&e.Conditions)
		before = e
	}
	l.addTo(t)
}

func compactGlobal(s *fabedgev1alpha1.GlobalServiceSpec, t *texts) {
	s.Ports, s.Endpoints = slices.Clone(s.Ports), slices.Clone(s.Endpoints)
	for i := range s.Ports {
		p := &s.Ports[i]
		p.Name, p.Protocol = shared(p.Name), corev1.Protocol(shared(string(p.Protocol)))
	}
	n := 0
	for i := range s.Endpoints {
		n += count(s.Endpoints[i].Addresses, s.Endpoints[i].Hostname)
	}
	l := make(list, 0, n)
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		e.Addresses, e.Hostname = l.hold(e.Addresses), l.point(e.Hostname)
		e.Cluster, e.Zone, e.Region, e.Ready = shared(e.Cluster), shared(e.Zone), shared(e.Region), sharedBool(e.Ready)
	}
	l.addTo(t)
}

func compactService(s *clustersetv1alpha1.ExportedServiceSpec, t *texts) {
	t.add(&s.ServiceName)
	s.ServiceNamespace, s.Type = shared(s.ServiceNamespace), mcsv1beta1.ServiceImportType(shared(string(s.Type)))
	s.ClusterIPs, s.Ports, s.IPFamilies = slices.Clone(s.ClusterIPs), slices.Clone(s.Ports), slices.Clone(s.IPFamilies)
	list(s.ClusterIPs).addTo(t)
	for i := range s.IPFamilies {
		s.IPFamilies[i] = corev1.IPFamily(shared(string(s.IPFamilies[i])))
	}
	for i := range s.Ports {
		p := &s.Ports[i]
		p.Protocol = corev1.Protocol(shared(string(p.Protocol)))
		t.add(&p.Name)
	}
}

func compactImport(o *mcsv1beta1.ServiceImport, t *texts) {
	s := &o.Spec
	s.Ports, s.IPs, s.IPFamilies = slices.Clone(s.Ports), slices.Clone(s.IPs), slices.Clone(s.IPFamilies)
	list(s.IPs).addTo(t)
	for i := range s.Ports {
		p := &s.Ports[i]
		p.Name, p.Protocol = shared(p.Name), corev1.Protocol(shared(string(p.Protocol)))
	}
	o.Status.Clusters, o.Status.Conditions = slices.Clone(o.Status.Clusters), slices.Clone(o.Status.Conditions)
	for i := range o.Status.Clusters {
		o.Status.Clusters[i].Cluster = shared(o.Status.Clusters[i].Cluster)
	}
	for i := range o.Status.Conditions {
		c := &o.Status.Conditions[i]
		c.Type, c.Status, c.Reason = shared(c.Type), metav1.ConditionStatus(shared(string(c.Status))), shared(c.Reason)
		t.add(&c.Message)
	}
}

func sharedConditions(c *discoveryv1.EndpointConditions) {
	c.Ready, c.Serving, c.Terminating = sharedBool(c.Ready), sharedBool(c.Serving), sharedBool(c.Terminating)
}
