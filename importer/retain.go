package importer

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
)

// missing returns what our objects of a service have that the hub's records don't.
func missing(in input, cur current) []part {
	exporting, records := map[string]bool{}, map[string]bool{}
	for _, s := range in.services {
		if cluster, ok := s.SourceCluster(); ok {
			exporting[cluster] = true
		}
	}
	for _, e := range in.endpoints {
		if p, ok := partOf(e); ok {
			records[p.slice] = true
		}
	}
	found := map[part]bool{}
	add := func(cluster, slice string) {
		if cluster == "" {
			return
		}
		if !exporting[cluster] {
			slice = ""
		} else if slice == "" || records[slice] {
			return
		}
		found[part{in.key, cluster, slice}] = true
	}
	if imp := cur.serviceImport; imp != nil && ours(imp) {
		for _, c := range imp.Status.Clusters {
			add(c.Cluster, "")
		}
	}
	if g := cur.global; g != nil && ours(g) {
		for i := range g.Spec.Endpoints {
			add(g.Spec.Endpoints[i].Cluster, "")
		}
	}
	for _, s := range cur.slices {
		if fromRecord(s) && len(s.Endpoints) > 0 {
			add(s.Labels[api.LabelSourceCluster], s.Name)
		}
	}
	return slices.Collect(maps.Keys(found))
}

// fromRecord says whether one of our slices holds the endpoints of an ExportedEndpoints, and not a ClusterIP.
func fromRecord(s *discoveryv1.EndpointSlice) bool { return s.Labels[api.LabelServiceName] != "" }

// retain adds to the input, for parts that are missing on the hub and yet to be kept, records that say what our own objects
// still do. With them the service comes out as it is, and what the clusters that are there change is changed.
func retain(in *input, cur current, kept []part) {
	in.retained = map[string]string{}
	names := exportedNames(in, cur)
	for _, p := range kept {
		if p.slice == "" {
			if s := remembered(in, cur, p.cluster, names); s != nil {
				in.services = append(in.services, s)
			}
		}
		for _, s := range cur.slices {
			if fromRecord(s) && s.Labels[api.LabelSourceCluster] == p.cluster && (p.slice == "" || p.slice == s.Name) {
				in.endpoints = append(in.endpoints, rememberedEndpoints(in, s, names))
			}
		}
	}
}

// exportedNames returns the names that ports of our objects have in the records, where they are others: none, for one that
// has a name only among others (merge.Port).
func exportedNames(in *input, cur current) map[string]string {
	names := map[string]string{}
	for _, have := range portsOf(cur) {
		for _, s := range in.services {
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

// portsOf returns the ports our objects say the service has.
func portsOf(cur current) (ports []clustersetv1alpha1.ServicePort) {
	switch {
	case cur.serviceImport != nil && ours(cur.serviceImport):
		for _, p := range cur.serviceImport.Spec.Ports {
			ports = append(ports, clustersetv1alpha1.ServicePort{Name: p.Name, Protocol: p.Protocol, AppProtocol: p.AppProtocol, Port: p.Port})
		}
	case cur.global != nil && ours(cur.global):
		for _, p := range cur.global.Spec.Ports {
			ports = append(ports, clustersetv1alpha1.ServicePort{Name: p.Name, Protocol: p.Protocol, AppProtocol: p.AppProtocol, Port: p.Port})
		}
	}
	return ports
}

// remembered returns the export of a cluster as our objects have it; nil where they don't. Our objects say what the merge of
// all exports came to. As the word of the oldest it stays that.
func remembered(in *input, cur current, cluster string, names map[string]string) *clustersetv1alpha1.ExportedService {
	spec := clustersetv1alpha1.ExportedServiceSpec{
		ServiceNamespace: in.key.Namespace, ServiceName: in.key.Name, ExportedAt: metav1.NewTime(time.Unix(1, 0)),
	}
	switch imp := cur.serviceImport; {
	case imp != nil && ours(imp):
		spec.Type, spec.IPFamilies = imp.Spec.Type, imp.Spec.IPFamilies
		spec.SessionAffinity, spec.SessionAffinityConfig = imp.Spec.SessionAffinity, imp.Spec.SessionAffinityConfig
		spec.InternalTrafficPolicy, spec.TrafficDistribution = imp.Spec.InternalTrafficPolicy, imp.Spec.TrafficDistribution
		spec.ExportedLabels = noted(imp.Labels, notedKeys(imp.Annotations, api.AnnotationExportedLabels))
		spec.ExportedAnnotations = noted(imp.Annotations, notedKeys(imp.Annotations, api.AnnotationExportedAnnotations))
	case cur.global != nil && ours(cur.global) && cur.global.Spec.Type == fabedgev1alpha1.Headless:
		spec.Type = mcsv1beta1.Headless
	case cur.global != nil && ours(cur.global):
		spec.Type = mcsv1beta1.ClusterSetIP
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
		ObjectMeta: metav1.ObjectMeta{Namespace: api.MemberNamespace(cluster), Name: api.ExportedServiceName(in.key.Namespace, in.key.Name)},
		Spec:       spec,
	}
}

// rememberedIPs returns the ClusterIPs of a cluster's Service.
func rememberedIPs(cur current, cluster string) (ips []string) {
	if g := cur.global; g != nil && ours(g) && g.Spec.Type != fabedgev1alpha1.Headless {
		for i := range g.Spec.Endpoints {
			if g.Spec.Endpoints[i].Cluster == cluster {
				return g.Spec.Endpoints[i].Addresses
			}
		}
	}
	for _, s := range cur.slices {
		if !fromRecord(s) && s.Labels[api.LabelSourceCluster] == cluster {
			for _, e := range s.Endpoints {
				ips = append(ips, e.Addresses...)
			}
		}
	}
	return ips
}

// rememberedPorts returns the names of the ports that a cluster's slices have; nil where it has none, so that nobody knows.
func rememberedPorts(cur current, cluster string) map[string]bool {
	var names map[string]bool
	for _, s := range cur.slices {
		if s.Labels[api.LabelSourceCluster] != cluster {
			continue
		}
		if names == nil {
			names = map[string]bool{}
		}
		for _, p := range s.Ports {
			names[*p.Name] = true // the API server fills it in
		}
	}
	return names
}

// rememberedEndpoints returns the record that one of our slices came from, as far as it can be told.
func rememberedEndpoints(in *input, s *discoveryv1.EndpointSlice, names map[string]string) *clustersetv1alpha1.ExportedEndpoints {
	cluster := s.Labels[api.LabelSourceCluster]
	name := api.ExportedServiceName(in.key.Namespace, in.key.Name) + "." + s.Name
	in.retained[cluster+"/"+name] = s.Name
	e := &clustersetv1alpha1.ExportedEndpoints{
		ObjectMeta: metav1.ObjectMeta{Namespace: api.MemberNamespace(cluster), Name: name},
		Spec: clustersetv1alpha1.ExportedEndpointsSpec{
			ServiceNamespace: in.key.Namespace, ServiceName: in.key.Name,
			AddressType: s.AddressType, Endpoints: s.Endpoints,
		},
	}
	for _, p := range s.Ports {
		port := renamedBack(*p.Name, names)
		p.Name = &port
		e.Spec.Ports = append(e.Spec.Ports, p)
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
