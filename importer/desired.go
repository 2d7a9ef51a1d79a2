package importer

import (
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
	"github.com/clusterset/clusterset/internal/merge"
)

// input is everything the objects of one service depend on.
type input struct {
	key      types.NamespacedName
	dataPath DataPath

	// services and endpoints are the hub's records of the service, as they are.
	services  []*clustersetv1alpha1.ExportedService
	endpoints []*clustersetv1alpha1.ExportedEndpoints
	// members are the MemberClusters of the clusters that the records come from, where there are any.
	members map[string]*clustersetv1alpha1.MemberCluster

	// retained has, for those of endpoints that only say what an EndpointSlice here does, by "<cluster>/<record's name>", the
	// slice's name. See retain.
	retained map[string]string

	// derived is the derived Service as it is, nil where it isn't yet. The API server chose its addresses.
	derived *corev1.Service
	// unsupported says that this cluster has no addresses of the families the service has.
	unsupported bool
}

// output is what the objects should be. It has no import where nobody exports the service.
type output struct {
	resolved merge.Resolved

	// serviceImport has its status filled in.
	serviceImport *mcsv1beta1.ServiceImport
	// derived is the Service behind the ClusterSetIP; nil where there is none.
	derived *corev1.Service
	// slices are without owner, whose UID nobody knows before it exists.
	slices []*discoveryv1.EndpointSlice
	// global has its status filled in.
	global *fabedgev1alpha1.GlobalService

	// drops are the parts of the records that were left out.
	drops []merge.Drop
}

// compute returns the objects that a service's records come to. It is pure, and it depends on no order: lists come out
// sorted, because an object that only changes its order is written and watched for nothing.
func compute(in input) output {
	exports, drops := merge.Sanitize(in.services)
	endpoints, more := merge.SanitizeEndpoints(in.endpoints)
	out := output{resolved: merge.Resolve(exports), drops: append(drops, more...)}
	if len(out.resolved.Clusters) == 0 {
		return out
	}
	endpoints = slices.DeleteFunc(endpoints, func(e merge.Endpoints) bool {
		return !slices.Contains(out.resolved.Clusters, e.Cluster) // its ExportedService is gone, or is yet to come
	})
	for _, cluster := range out.resolved.Clusters {
		if m := in.members[cluster]; m != nil && len(m.Spec.CIDRs) > 0 {
			out.drops = append(out.drops, confine(cluster, m.Spec.CIDRs, exports, endpoints)...)
		}
	}

	w := work{in: in, resolved: out.resolved, exports: exports, endpoints: endpoints}
	out.derived = w.derivedService()
	out.slices = w.endpointSlices()
	out.serviceImport = w.serviceImport(len(out.slices) > 0)
	out.global = w.globalService()
	return out
}

// work is what the builders of the single objects share.
type work struct {
	in        input
	resolved  merge.Resolved
	exports   []merge.Export
	endpoints []merge.Endpoints
}

func (w *work) objectMeta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: w.in.key.Namespace, Name: name, Labels: ourLabels()}
}

// hasVIP says whether the service gets a ClusterSetIP here. Without ports, which no exporting Service lacks but all of which
// may have been of no use, the API server would refuse the derived Service.
func (w *work) hasVIP() bool {
	return w.resolved.Type == mcsv1beta1.ClusterSetIP && w.in.dataPath != DataPathNone && len(w.resolved.Ports) > 0
}

// exposed returns the ports of the merged service that the cluster exposes exactly.
func (w *work) exposed(cluster string) []merge.Port {
	var ports []merge.Port
	for _, p := range w.resolved.Ports {
		if p.ExposedBy(cluster) {
			ports = append(ports, p)
		}
	}
	return ports
}

// confine removes the addresses that lie outside of the networks an administrator gave the cluster on the hub, in place:
// the records are sanitized copies. It keeps a member from exporting another's addresses.
func confine(cluster string, cidrs []string, exports []merge.Export, endpoints []merge.Endpoints) []merge.Drop {
	var networks []netip.Prefix
	for _, cidr := range cidrs {
		if p, err := netip.ParsePrefix(cidr); err == nil {
			networks = append(networks, p)
		}
	}
	var drops []merge.Drop
	outside := func(kind, record string, path *field.Path) func(string) bool {
		return func(s string) bool {
			addr, err := netip.ParseAddr(s)
			if err == nil && slices.ContainsFunc(networks, func(p netip.Prefix) bool { return p.Contains(addr) }) {
				return false
			}
			drops = append(drops, merge.Drop{
				Cluster: cluster, Kind: kind, Record: record,
				Err: field.Invalid(path, s, fmt.Sprintf("must lie in one of the cluster's networks, %v", cidrs)),
			})
			return true
		}
	}
	for _, e := range exports {
		if e.Cluster == cluster {
			s := &e.Service.Spec
			s.ClusterIPs = slices.DeleteFunc(s.ClusterIPs,
				outside("ExportedService", e.Service.Name, field.NewPath("spec", "clusterIPs")))
		}
	}
	for _, e := range endpoints {
		if e.Cluster != cluster {
			continue
		}
		s := &e.Endpoints.Spec
		path := field.NewPath("spec", "endpoints")
		s.Endpoints = slices.DeleteFunc(s.Endpoints, func(ep discoveryv1.Endpoint) bool {
			// One bad address is reason enough: an endpoint's addresses are one and the same backend's.
			return slices.ContainsFunc(ep.Addresses, outside("ExportedEndpoints", e.Endpoints.Name, path))
		})
	}
	return drops
}

// isReady is what discovery/v1 says about a condition that is left out: unknown means ready.
func isReady(e *discoveryv1.Endpoint) bool { return e.Conditions.Ready == nil || *e.Conditions.Ready }

// familyOf is the family of an address that has been parsed before.
func familyOf(address string) corev1.IPFamily {
	if addr, err := netip.ParseAddr(address); err == nil && addr.Is4() {
		return corev1.IPv4Protocol
	}
	return corev1.IPv6Protocol
}
