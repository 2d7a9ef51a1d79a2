package preview

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/internal/index"
	"github.com/clusterset/clusterset/internal/kubeproxy"
	"github.com/clusterset/clusterset/internal/merge"
	"github.com/clusterset/clusterset/internal/topology"
)

// Options are what no record on the hub says: how agents and DNS servers are configured, for all clusters alike, and what is asked for.
type Options struct {
	// DataPath is where ClusterSetIPs lead. Empty: pods.
	DataPath desired.DataPath
	// Policy has what services leave open.
	Policy topology.Policy

	// Services limits the services, From the places. Empty: all.
	Services []types.NamespacedName
	From     topology.Location
	// Addresses has each Answer list them.
	Addresses bool
	// All has what doesn't change listed as well.
	All bool
}

// look is how clusters see one service in a State. Those that see it alike are computed once.
type look struct {
	state   *State
	options *Options
	key     types.NamespacedName
	records *records // nil: nobody exports it
	seen    map[string]*seen
}

// seen is what the clusters of a kind import of the service.
type seen struct {
	resolved merge.Resolved
	objects  []index.Object
	// vip says that there is a ClusterSetIP, behind are the endpoints behind it.
	vip    bool
	behind map[kubeproxy.Port][]kubeproxy.Endpoint
	views  map[string]*Answers // by zone
}

// standIn are the addresses that a derived Service might get.
var standIn = &corev1.Service{Spec: corev1.ServiceSpec{ClusterIPs: []string{"192.0.2.1", "2001:db8::1"}}} // RFC 5737, 3849

func (s *State) look(key types.NamespacedName, o *Options) *look {
	return &look{state: s, options: o, key: key, records: s.services[key], seen: map[string]*seen{}}
}

// from returns what a cluster sees. Whoever doesn't export the service sees it as others do that lie where it lies.
func (l *look) from(cluster string) *seen {
	kind := l.state.kinds[cluster]
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
		Services: l.records.services, Endpoints: l.records.endpoints, Members: l.state.usable, Derived: standIn,
	}
	if in.DataPath == "" {
		in.DataPath = desired.DataPathPods
	}
	if exports {
		in.Own = l.records.own(cluster)
	}
	out := desired.Compute(in)
	s.resolved = out.Resolved
	if out.ServiceImport == nil {
		return s
	}
	s.take(out.ServiceImport)
	if out.Global != nil {
		s.take(out.Global)
	}
	for _, slice := range out.Slices {
		s.take(slice)
	}
	s.routed(l.key, out.Slices)
	s.vip = out.Derived != nil
	for _, exporter := range out.Resolved.Clusters {
		if c := l.state.ranked[exporter]; c != nil {
			s.objects = append(s.objects, c)
		}
	}
	return s
}

// routed takes up those slices that are for kube-proxy.
func (s *seen) routed(key types.NamespacedName, all []*discoveryv1.EndpointSlice) *seen {
	derived := api.DerivedServiceName(key.Namespace, key.Name)
	var routed []*discoveryv1.EndpointSlice
	for _, slice := range all {
		if slice.Namespace == key.Namespace && slice.Labels[api.LabelKubernetesServiceName] == derived {
			routed = append(routed, slice)
		}
	}
	s.vip, s.behind = len(routed) > 0, kubeproxy.Ready(routed)
	return s
}

// take takes up an object as the DNS servers do.
func (s *seen) take(o runtime.Object) {
	if object, _, _ := index.Convert(o); object != nil {
		s.objects = append(s.objects, object)
	}
}

// own is what a cluster's own objects say, as the hub has it of them.
func (r *records) own(cluster string) *desired.Own {
	own := &desired.Own{}
	for _, s := range r.services {
		if of(s) == cluster {
			own.ClusterIPs = s.Spec.ClusterIPs
		}
	}
	for _, e := range r.endpoints {
		if of(e) == cluster {
			own.Endpoints = append(own.Endpoints, e)
		}
	}
	return own
}

// member is what ranking knows of a cluster.
func (l *look) member(cluster string) *topology.Member {
	if c := l.state.ranked[cluster]; c != nil {
		return &c.Member
	}
	return nil
}
