package hold

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/internal/merge"
	"github.com/clusterset/clusterset/internal/policy"
)

// Removal is what the importer's objects of a service have and the desired ones don't.
type Removal struct {
	// Missing are the parts without a record on the hub. They were un-exported or lost; Hold decides which.
	Missing []Part
	// Other is set if something else is removed: its record changed, or has nothing usable any more.
	Other bool
}

// Any reports whether there is anything to remove.
func (r Removal) Any() bool { return len(r.Missing) > 0 || r.Other }

// RemovalOf compares the importer's objects of a service with the desired ones.
func RemovalOf(in desired.Input, cur desired.Current, out desired.Output) (r Removal) {
	exporting := make(map[string]bool, len(in.Services))
	for _, s := range in.Services {
		if cluster, ok := s.SourceCluster(); ok {
			exporting[cluster] = true
		}
	}
	missing := map[Part]bool{}
	noted := ""
	note := func(cluster string) {
		if cluster == noted && cluster != "" {
			return
		}
		noted = cluster
		if !exporting[cluster] && cluster != "" {
			missing[Part{Service: in.Key, Cluster: cluster}] = true
		} else if _, merged := slices.BinarySearch(out.Resolved.Clusters, cluster); !merged {
			r.Other = true
		}
	}
	// If nothing of a service remains, the absence of its records shows that.
	useless := out.ServiceImport == nil && len(in.Services) > 0
	if imp := cur.ServiceImport; imp != nil && desired.Owned(imp) {
		r.Other = r.Other || useless
		for _, c := range imp.Status.Clusters {
			note(c.Cluster)
		}
	}
	if g := cur.Global; g != nil && desired.Owned(g) {
		r.Other = r.Other || useless
		for i := range g.Spec.Endpoints {
			note(g.Spec.Endpoints[i].Cluster)
		}
	}
	if cur.Derived != nil && desired.Owned(cur.Derived) {
		r.Other = r.Other || useless
	}
	stale := cur.StaleSlices(out)
	records, whole := map[string]bool{}, map[string]bool{} // slices in whole are complete in out
	if len(stale) > 0 {
		for _, e := range in.Endpoints {
			if p, ok := PartOf(e); ok {
				records[p.Slice] = true
			}
		}
		for _, s := range out.Slices {
			whole[desired.WholeSlice(s.Name)] = true
		}
	}
	for _, s := range stale {
		cluster, name := s.Labels[api.LabelSourceCluster], desired.WholeSlice(s.Name)
		switch full := fromRecord(s) && len(s.Endpoints) > 0; {
		case whole[name], in.Own != nil && cluster == in.Cluster: // known from local objects, not from the hub
		case full && !exporting[cluster] && cluster != "":
			missing[Part{Service: in.Key, Cluster: cluster}] = true
		case full && !records[name] && cluster != "":
			missing[Part{Service: in.Key, Cluster: cluster, Slice: name}] = true
		case missing[Part{Service: in.Key, Cluster: cluster}]: // counted as missing with the cluster's export
		default:
			r.Other = true
		}
	}
	r.Missing = slices.Collect(maps.Keys(missing))
	left := cur.ServiceImport != nil && desired.Owned(cur.ServiceImport) || cur.Global != nil && desired.Owned(cur.Global) ||
		cur.Derived != nil && desired.Owned(cur.Derived)
	if out.ServiceImport == nil && left && len(r.Missing) == 0 {
		r.Other = true // it doesn't say which cluster it was for
	}
	return r
}

// fromRecord reports whether one of the importer's slices has the endpoints of an ExportedEndpoints instead of a ClusterIP.
func fromRecord(s *discoveryv1.EndpointSlice) bool { return s.Labels[api.LabelServiceName] != "" }

// Retain adds records to the input for parts that are missing on the hub but have to be kept. It derives them from the importer's
// own objects, so that these parts stay as they are, while changes of other clusters are applied.
func Retain(in *desired.Input, cur desired.Current, kept []Part) {
	in.Retained, in.Remembered = map[string]string{}, map[string]bool{}
	names, there := exportedNames(in, cur), map[string]bool{}
	for _, e := range in.Endpoints {
		if cluster, ok := e.SourceCluster(); ok {
			there[desired.SliceName(cluster, in.Key.Name, e.Name)] = true
		}
	}
	for _, p := range kept {
		if p.Slice == "" {
			if s := remembered(in, cur, p.Cluster, names); s != nil {
				in.Services = append(in.Services, s)
				in.Remembered[p.Cluster] = true
			}
		}
		pieces := map[string][]*discoveryv1.EndpointSlice{}
		for _, s := range cur.Slices {
			whole := desired.WholeSlice(s.Name)
			if fromRecord(s) && s.Labels[api.LabelSourceCluster] == p.Cluster && (p.Slice == "" && !there[whole] || p.Slice == whole) {
				pieces[whole] = append(pieces[whole], s)
			}
		}
		for _, whole := range slices.Sorted(maps.Keys(pieces)) {
			in.Endpoints = append(in.Endpoints, rememberedEndpoints(in, whole, pieces[whole], names))
		}
	}
}

// exportedNames returns the exported names of the ports that have another name here. The exported name is empty for a port that has
// a generated name (merge.Port), as far as any record still says so. If none does, either name leads to the same objects. This cluster's
// own Service has the same information as its record, which may be out of reach. A port that one cluster exports with a name and another
// without keeps the name: only the oldest one's counts.
func exportedNames(in *desired.Input, cur desired.Current) map[string]string {
	names := map[string]string{}
	for _, have := range portsOf(cur) {
		if !merge.IsGenerated(have.Name, have.Protocol, have.Port) {
			continue
		}
		if in.Own != nil {
			for _, p := range in.Own.Ports {
				if p.Name == "" && p.Port == have.Port && p.Protocol == have.Protocol {
					names[have.Name] = ""
				}
			}
		}
		for _, e := range in.Endpoints {
			for _, p := range e.Spec.Ports {
				if (p.Name == nil || *p.Name == "") && (p.Protocol == nil || *p.Protocol == have.Protocol) {
					names[have.Name] = ""
				}
			}
		}
		for _, s := range in.Services {
			for _, p := range s.Spec.Ports {
				if p.Name == "" && p.Port == have.Port && (p.Protocol == have.Protocol || p.Protocol == "" && have.Protocol == corev1.ProtocolTCP) {
					names[have.Name] = ""
				}
			}
		}
	}
	return names
}

func renamedBack(name string, names map[string]string) string {
	if exported, ok := names[name]; ok {
		return exported
	}
	return name
}

// portsOf returns the service's ports according to the importer's objects.
func portsOf(cur desired.Current) (ports []clustersetv1alpha1.ServicePort) {
	switch {
	case cur.ServiceImport != nil && desired.Owned(cur.ServiceImport):
		for _, p := range cur.ServiceImport.Spec.Ports {
			ports = append(ports, clustersetv1alpha1.ServicePort{Name: p.Name, Protocol: p.Protocol, AppProtocol: p.AppProtocol, Port: p.Port})
		}
	case cur.Global != nil && desired.Owned(cur.Global):
		for _, p := range cur.Global.Spec.Ports {
			ports = append(ports, clustersetv1alpha1.ServicePort{Name: p.Name, Protocol: p.Protocol, AppProtocol: p.AppProtocol, Port: p.Port})
		}
	}
	return ports
}

// remembered returns a cluster's export according to the importer's objects, or nil. These objects have the merged result of all
// exports. The export counts as the oldest, so that the result stays the same.
func remembered(in *desired.Input, cur desired.Current, cluster string, names map[string]string) *clustersetv1alpha1.ExportedService {
	spec := clustersetv1alpha1.ExportedServiceSpec{
		ServiceNamespace: in.Key.Namespace, ServiceName: in.Key.Name, ExportedAt: metav1.NewTime(time.Unix(1, 0)),
	}
	switch imp := cur.ServiceImport; {
	case imp != nil && desired.Owned(imp):
		spec.Type, spec.IPFamilies = imp.Spec.Type, imp.Spec.IPFamilies
		spec.SessionAffinity, spec.SessionAffinityConfig = imp.Spec.SessionAffinity, imp.Spec.SessionAffinityConfig
		spec.InternalTrafficPolicy, spec.TrafficDistribution = imp.Spec.InternalTrafficPolicy, imp.Spec.TrafficDistribution
		spec.ExportedLabels = noted(imp.Labels, desired.NotedKeys(imp.Annotations, api.AnnotationExportedLabels))
		spec.ExportedAnnotations = noted(imp.Annotations, desired.NotedKeys(imp.Annotations, api.AnnotationExportedAnnotations))
		spec.Policy = statedOn(imp)
	case cur.Global != nil && desired.Owned(cur.Global) && cur.Global.Spec.Type == fabedgev1alpha1.Headless:
		spec.Type, spec.Policy = mcsv1beta1.Headless, statedOn(cur.Global)
	case cur.Global != nil && desired.Owned(cur.Global):
		spec.Type, spec.Policy = mcsv1beta1.ClusterSetIP, statedOn(cur.Global)
	default:
		return nil
	}
	if spec.Type == mcsv1beta1.ClusterSetIP {
		spec.ClusterIPs = rememberedIPs(cur, cluster)
	}
	exposes := rememberedPorts(cur, cluster)
	for _, p := range portsOf(cur) {
		if exposes == nil || exposes[p.Name] {
			p.Name = renamedBack(p.Name, names)
			spec.Ports = append(spec.Ports, p)
		}
	}
	return &clustersetv1alpha1.ExportedService{
		ObjectMeta: metav1.ObjectMeta{Namespace: api.MemberNamespace(cluster), Name: api.ExportedServiceName(in.Key.Namespace, in.Key.Name)},
		Spec:       spec,
	}
}

// statedOn returns the policy on an object of the importer.
func statedOn(o metav1.Object) *clustersetv1alpha1.ServicePolicy {
	stated, _ := policy.FromAnnotations(o.GetAnnotations(), nil) // the next write corrects anyone's edits
	return policy.Export(stated)
}

// rememberedIPs returns the ClusterIPs of a cluster's Service.
func rememberedIPs(cur desired.Current, cluster string) (ips []string) {
	if g := cur.Global; g != nil && desired.Owned(g) && g.Spec.Type != fabedgev1alpha1.Headless {
		for i := range g.Spec.Endpoints {
			if g.Spec.Endpoints[i].Cluster == cluster {
				return g.Spec.Endpoints[i].Addresses
			}
		}
	}
	for _, s := range cur.Slices {
		if !fromRecord(s) && s.Labels[api.LabelSourceCluster] == cluster {
			for _, e := range s.Endpoints {
				ips = append(ips, e.Addresses...)
			}
		}
	}
	return ips
}

// rememberedPorts returns the names of the ports that a cluster exposes, or nil if they are unknown, or if it exposes all. A
// GlobalService states it for each ClusterIP. Slices state which ports endpoints listen on; a port that no cluster's slice has
// may be waiting for its first endpoint and counts as everyone's.
func rememberedPorts(cur desired.Current, cluster string) map[string]bool {
	names := map[string]bool{}
	if g := cur.Global; g != nil && desired.Owned(g) && g.Spec.Type != fabedgev1alpha1.Headless {
		for _, e := range g.Spec.Endpoints {
			if e.Cluster != cluster {
				continue
			}
			if len(e.Ports) == 0 {
				return nil
			}
			for _, p := range e.Ports {
				names[p.Name] = true
			}
			return names
		}
	}
	others, known := map[string]bool{}, false
	for _, s := range cur.Slices {
		own := s.Labels[api.LabelSourceCluster] == cluster
		known = known || own
		for _, p := range s.Ports { // the API server fills in the name
			if own {
				names[*p.Name] = true
			} else {
				others[*p.Name] = true
			}
		}
	}
	if !known {
		return nil
	}
	for _, p := range portsOf(cur) {
		names[p.Name] = names[p.Name] || !others[p.Name]
	}
	return names
}

// rememberedEndpoints reconstructs the record behind the pieces of one of the importer's slices, as far as possible. The hints
// and node names in them are the importer's, not the exporter's, and are left out.
func rememberedEndpoints(in *desired.Input, whole string, pieces []*discoveryv1.EndpointSlice, names map[string]string) *clustersetv1alpha1.ExportedEndpoints {
	cluster := pieces[0].Labels[api.LabelSourceCluster]
	name := api.ExportedServiceName(in.Key.Namespace, in.Key.Name) + "." + whole
	in.Retained[cluster+"/"+name] = whole
	e := &clustersetv1alpha1.ExportedEndpoints{
		ObjectMeta: metav1.ObjectMeta{Namespace: api.MemberNamespace(cluster), Name: name},
		Spec: clustersetv1alpha1.ExportedEndpointsSpec{
			ServiceNamespace: in.Key.Namespace, ServiceName: in.Key.Name, AddressType: pieces[0].AddressType,
		},
	}
	seen := map[string]bool{}
	for _, s := range pieces {
		for _, p := range s.Ports {
			port := renamedBack(*p.Name, names)
			p.Name = &port
			if key := "port/" + port; !seen[key] {
				seen[key] = true
				e.Spec.Ports = append(e.Spec.Ports, clustersetv1alpha1.EndpointPort(p))
			}
		}
		for _, endpoint := range s.Endpoints {
			if !seen[endpoint.Addresses[0]] {
				seen[endpoint.Addresses[0]] = true
				e.Spec.Endpoints = append(e.Spec.Endpoints, clustersetv1alpha1.EndpointOf(&endpoint))
			}
		}
	}
	return e
}

func noted(m map[string]string, keys []string) map[string]string {
	values := make(map[string]string, len(keys))
	for _, k := range keys {
		values[k] = m[k]
	}
	return values
}
