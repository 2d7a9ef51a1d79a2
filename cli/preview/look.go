package preview

import (
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/internal/door"
	"github.com/clusterset/clusterset/internal/index"
	"github.com/clusterset/clusterset/internal/kubeproxy"
	"github.com/clusterset/clusterset/internal/merge"
	"github.com/clusterset/clusterset/internal/topology"
)

// Options are the settings that no record on the hub has, the same for the agents and DNS servers of all clusters, and what to report.
type Options struct {
	// DataPath is the agents' --data-path. Empty: pods.
	DataPath desired.DataPath
	// Policy applies if a service states none.
	Policy topology.Policy
	// Extended are the services of which each cluster has a Service that is extended to other clusters (api.KeyExtend).
	Extended []types.NamespacedName

	// Services limits the services, and From the places. Empty: all.
	Services []types.NamespacedName
	From     topology.Location
	// Addresses lists the addresses in each Answer.
	Addresses bool
	// All also lists what doesn't change.
	All bool
}

// look computes how clusters see one service in a State, once for clusters that see it alike.
type look struct {
	state   *State
	options *Options
	key     types.NamespacedName
	records *records // nil: no cluster exports it
	seen    map[string]*seen
	// apart are the clusters that see the same exports, by their numbers, if not all see all.
	apart map[string]int
	// exports and endpoints are what an importer reads of the records.
	exports   []*door.Export
	endpoints []*door.Endpoints
}

// seen is what clusters of one kind import of the service.
type seen struct {
	resolved merge.Resolved
	written  []runtime.Object
	objects  []index.Object // those that DNS servers read, and the clusters
	// vip says that there is a ClusterSetIP. behind are the endpoints behind it.
	vip    bool
	behind map[kubeproxy.Port][]kubeproxy.Endpoint
	// external is how many ready endpoints are behind the external addresses of each cluster that is reached at such.
	external map[string]int
	// extending are the slices that extend the cluster's own Service, if the Options say that it is extended.
	extending []*discoveryv1.EndpointSlice
	views     map[string]*Answers // by zone
}

// standIn has placeholders for the addresses that a derived Service would get.
var standIn = &corev1.Service{Spec: corev1.ServiceSpec{ClusterIPs: []string{"192.0.2.1", "2001:db8::1"}}} // RFC 5737, 3849

func (s *State) look(key types.NamespacedName, o *Options) *look {
	l := &look{state: s, options: o, key: key, records: s.services[key], seen: map[string]*seen{}}
	if l.records == nil {
		return l
	}
	l.exports = l.records.values()
	for _, e := range l.records.endpoints {
		l.endpoints = append(l.endpoints, door.CompactEndpoints(e))
	}
	if !s.views.Alike(l.records.services) {
		exports, _ := merge.Exports(l.exports, nil)
		l.apart = map[string]int{}
		for i, view := range s.views.Of(exports) {
			for _, cluster := range view.By {
				l.apart[cluster] = i + 1 // 0: those that see none
			}
		}
	}
	return l
}

// from returns what a cluster imports. Clusters that don't export the service import the same if their zones and region are the same.
func (l *look) from(cluster string) *seen {
	kind := l.state.kinds[cluster]
	if l.apart != nil {
		kind += fmt.Sprint(" ", l.apart[cluster])
	}
	exports := l.records != nil && l.records.exports(cluster)
	if exports {
		kind = cluster
	}
	if l.seen[kind] == nil {
		l.seen[kind] = l.compute(cluster, exports)
	}
	return l.seen[kind]
}

func (l *look) compute(cluster string, exports bool) *seen {
	s := &seen{views: map[string]*Answers{}}
	if l.records == nil {
		return s
	}
	in := desired.Input{
		Key: l.key, DataPath: l.options.DataPath, Cluster: cluster, Nodes: l.state.nodes(cluster), Policy: l.options.Policy,
		Exports: l.exports, Endpoints: l.endpoints, Members: l.state.usable, Derived: standIn,
	}
	if m := l.state.usable[cluster]; m != nil {
		in.Forbidden = l.state.inside[m.Spec.Network]
	}
	if unreachable := l.state.unreachable[cluster]; len(unreachable) > 0 {
		in.Unreachable = func(other string) bool { return slices.Contains(unreachable, other) }
		s.objects = append(s.objects, &index.Reachability{Unreachable: unreachable})
	}
	if in.DataPath == "" {
		in.DataPath = desired.DataPathPods
	}
	if exports {
		in.Own = l.own(cluster)
	}
	if slices.Contains(l.options.Extended, l.key) {
		in.Extended = &desired.Extended{Service: l.records.service(l.key, cluster), Allowed: true}
	}
	out := desired.Compute(in)
	s.resolved = out.Resolved
	if out.ServiceImport == nil {
		return s
	}
	s.written = append(s.written, out.ServiceImport)
	if out.Global != nil {
		s.written = append(s.written, out.Global)
	}
	for _, slice := range out.Slices {
		s.written = append(s.written, slice)
	}
	for _, o := range s.written {
		s.take(o)
	}
	s.routed(l.key, out.Slices)
	s.extending = out.Extending
	s.vip = out.Derived != nil
	for _, exporter := range out.Resolved.Clusters {
		if c := l.state.ranked[exporter]; c != nil {
			s.objects = append(s.objects, c)
		}
	}
	return s
}

// routed reads the slices that are for kube-proxy.
func (s *seen) routed(key types.NamespacedName, all []*discoveryv1.EndpointSlice) *seen {
	derived := api.DerivedServiceName(key.Namespace, key.Name)
	var routed []*discoveryv1.EndpointSlice
	for _, slice := range all {
		if n, err := strconv.Atoi(slice.Annotations[api.AnnotationExternal]); err == nil {
			if s.external == nil {
				s.external = map[string]int{}
			}
			s.external[slice.Labels[api.LabelSourceCluster]] = max(1, n)
		}
		if slice.Namespace == key.Namespace && slice.Labels[api.LabelKubernetesServiceName] == derived {
			routed = append(routed, slice)
		}
	}
	s.vip, s.behind = len(routed) > 0, kubeproxy.Ready(routed)
	return s
}

// take adds an object, converted as the DNS servers convert it.
func (s *seen) take(o runtime.Object) {
	if object, _, _ := index.Convert(o); object != nil {
		s.objects = append(s.objects, object)
	}
}

// own returns a cluster's own objects, as far as the hub's records have them.
func (l *look) own(cluster string) *desired.Own {
	own := &desired.Own{}
	for _, e := range l.exports {
		if e.Cluster == cluster && e.Spec != nil {
			own.ClusterIPs = e.Spec.ClusterIPs
		}
	}
	for _, e := range l.endpoints {
		if e.Cluster == cluster {
			own.Endpoints = append(own.Endpoints, e)
		}
	}
	return own
}

// service returns the Service of a cluster, as far as the hub's records have it. If the cluster doesn't export it, it has the ports and families of
// those that do.
func (r *records) service(key types.NamespacedName, cluster string) *corev1.Service {
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, Annotations: map[string]string{api.KeyExtend: api.ExtendTrue}}}
	svc.Spec.Selector = map[string]string{"": ""} // one without can't be extended
	exports := r.exports(cluster)
	for _, s := range r.services {
		if exports && of(s) != cluster {
			continue
		}
		if exports {
			svc.Spec.TrafficDistribution = s.Spec.TrafficDistribution
		}
		for _, p := range s.Spec.Ports {
			if !slices.ContainsFunc(svc.Spec.Ports, func(q corev1.ServicePort) bool { return q.Name == p.Name && q.Protocol == p.Protocol }) {
				svc.Spec.Ports = append(svc.Spec.Ports, corev1.ServicePort{Name: p.Name, Protocol: p.Protocol, Port: p.Port})
			}
		}
		for _, f := range s.Spec.IPFamilies {
			if !slices.Contains(svc.Spec.IPFamilies, f) {
				svc.Spec.IPFamilies = append(svc.Spec.IPFamilies, f)
			}
		}
	}
	return svc
}

// member returns what the ranking in one cluster needs to know of another.
func (l *look) member(here, other string) *topology.Member {
	unreachable := slices.Contains(l.state.unreachable[here], other)
	if c := l.state.ranked[other]; c != nil && !unreachable {
		return &c.Member
	} else if c != nil {
		m := c.Member
		m.Unreachable = true
		return &m
	}
	return nil
}
