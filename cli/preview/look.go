package preview

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
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
	views    map[string]*Answers // by zone
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
	if l.records == nil {
		return l.read(nil)
	}
	in := desired.Input{
		Key: l.key, DataPath: cmp.Or(l.options.DataPath, desired.DataPathPods), Cluster: cluster, Nodes: l.state.nodes(cluster), Policy: l.options.Policy,
		Exports: l.exports, Endpoints: l.endpoints, Members: l.state.usable, Derived: standIn,
	}
	if m := l.state.usable[cluster]; m != nil {
		in.Forbidden = l.state.inside[m.Spec.Network]
	}
	unreachable := l.state.unreachable[cluster]
	if len(unreachable) > 0 {
		in.Unreachable = func(other string) bool { return slices.Contains(unreachable, other) }
	}
	if exports {
		in.Own = l.own(cluster)
	}
	out := desired.Compute(in)
	var written []runtime.Object
	if out.ServiceImport != nil {
		written = append(written, out.ServiceImport)
	}
	if out.Global != nil {
		written = append(written, out.Global)
	}
	for _, slice := range out.Slices {
		written = append(written, slice)
	}
	s := l.read(written)
	s.resolved, s.written, s.vip = out.Resolved, written, out.Derived != nil
	if len(unreachable) > 0 {
		s.objects = append(s.objects, &index.Reachability{Unreachable: unreachable})
	}
	for _, exporter := range out.Resolved.Clusters {
		if c := l.state.ranked[exporter]; c != nil {
			s.objects = append(s.objects, c)
		}
	}
	return s
}

// read reads what a cluster has of the service as its DNS servers and service proxies do, whoever has written it.
func (l *look) read(objects []runtime.Object) *seen {
	s := &seen{external: map[string]int{}, views: map[string]*Answers{}}
	derived := api.DerivedServiceName(l.key.Namespace, l.key.Name)
	var routed []*discoveryv1.EndpointSlice
	for _, o := range objects {
		if object, _, _ := index.Convert(o); object != nil {
			s.objects = append(s.objects, object)
		}
		slice, ok := o.(*discoveryv1.EndpointSlice)
		if !ok || slice.Namespace != l.key.Namespace {
			continue
		}
		if n, err := strconv.Atoi(slice.Annotations[api.AnnotationExternal]); err == nil {
			s.external[slice.Labels[api.LabelSourceCluster]] = max(1, n)
		}
		if slice.Labels[api.LabelKubernetesServiceName] == derived { // it is for kube-proxy
			routed = append(routed, slice)
		}
	}
	s.vip, s.behind = len(routed) > 0, kubeproxy.Ready(routed)
	return s
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
