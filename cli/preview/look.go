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
	// exports and endpoints are what an importer reads of the records. Without exports, no cluster exports it.
	exports   []*door.Export
	endpoints []*door.Endpoints
	seen      map[string]*seen
	// groups has a number for the clusters that see the same exports, if not all see all.
	groups map[string]int
}

// seen is what clusters of one kind import of the service.
type seen struct {
	written []runtime.Object
	objects []index.Object // those that DNS servers read, and the clusters
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
	l := &look{state: s, options: o, key: key, seen: map[string]*seen{}, groups: map[string]int{}}
	r := s.services[key]
	l.exports = r.values()
	for _, e := range r.endpoints {
		l.endpoints = append(l.endpoints, door.CompactEndpoints(e))
	}
	if !s.views.Alike(r.services) {
		exports, _ := merge.Exports(l.exports, nil)
		for i, view := range s.views.Of(exports) {
			for _, cluster := range view.By {
				l.groups[cluster] = i + 1 // 0: those that see none
			}
		}
	}
	return l
}

// from returns what a cluster imports. Clusters that don't export the service import the same if their zones and region are the same.
func (l *look) from(cluster string) *seen {
	kind := fmt.Sprint(l.state.kinds[cluster], l.groups[cluster])
	own := l.own(cluster)
	if own != nil {
		kind = cluster
	}
	if l.seen[kind] == nil {
		l.seen[kind] = l.compute(cluster, own)
	}
	return l.seen[kind]
}

func (l *look) compute(cluster string, own *desired.Own) *seen {
	m, unreachable := l.state.usable[cluster], l.state.unreachable[cluster]
	if len(l.exports) == 0 {
		return l.read(nil)
	}
	out := desired.Compute(desired.Input{
		Key: l.key, DataPath: cmp.Or(l.options.DataPath, desired.DataPathPods), Cluster: cluster, Nodes: l.state.nodes(cluster), Policy: l.options.Policy,
		Exports: l.exports, Endpoints: l.endpoints, Own: own, Members: l.state.usable, Derived: standIn, Forbidden: l.state.inside[m.Spec.Network],
		Unreachable: func(other string) bool { return slices.Contains(unreachable, other) },
	})
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
	s.written, s.vip = written, out.Derived != nil
	s.objects = append(s.objects, &index.Reachability{Unreachable: unreachable})
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

// own returns a cluster's own objects, as far as the hub's records have them. It is nil if the cluster doesn't export the service.
func (l *look) own(cluster string) *desired.Own {
	at := slices.IndexFunc(l.exports, func(e *door.Export) bool { return e.Cluster == cluster })
	if at < 0 {
		return nil
	}
	own := &desired.Own{}
	if spec := l.exports[at].Spec; spec != nil {
		own.ClusterIPs = spec.ClusterIPs
	}
	for _, e := range l.endpoints {
		if e.Cluster == cluster {
			own.Endpoints = append(own.Endpoints, e)
		}
	}
	return own
}
