package desired

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
	"github.com/clusterset/clusterset/internal/merge"
	"github.com/clusterset/clusterset/internal/topology"
)

// Input is everything the objects of one service depend on.
type Input struct {
	Key      types.NamespacedName
	DataPath DataPath
	// Cluster is the name of the cluster that the objects are for.
	Cluster string
	// Nodes are where its nodes lie, sorted and without repetitions. Empty: unknown.
	Nodes []NodePlace
	// Policy has what the service's own leaves open.
	Policy topology.Policy

	// Services and Endpoints are the hub's records of the service, as they are.
	Services  []*clustersetv1alpha1.ExportedService
	Endpoints []*clustersetv1alpha1.ExportedEndpoints
	// Own is what this cluster's objects say of the service; nil: not known. Where it exports the service that counts, and not what
	// the hub says of its addresses: the hub may be away or behind. What is merged stays as the hub has it of everyone, so that all
	// clusters come to the same.
	Own *Own
	// Members are the MemberClusters of the clusters that the records come from, and of this cluster, where there are any.
	Members map[string]*clustersetv1alpha1.MemberCluster
	// Returning are clusters that are Ready again, but not yet for long enough to be used as such.
	Returning map[string]bool

	// SkipGlobal leaves the GlobalService out.
	SkipGlobal bool

	// Capped are clusters that export more services than are imported of one, this one among those that are left out.
	Capped map[string]bool

	// Remembered are the clusters whose export among Services only says what the objects here do. It stays the word of the
	// oldest. See hold.Retain.
	Remembered map[string]bool
	// Retained has, for those of Endpoints that only say what an EndpointSlice here does, by "<cluster>/<record's name>", the
	// slice's name. See hold.Retain.
	Retained map[string]string

	// Derived is the derived Service as it is, nil where it isn't yet. The API server chose its addresses.
	Derived *corev1.Service
	// Unsupported says that this cluster has no addresses of the families the service has.
	Unsupported bool
	// Refused is why the API server refused the derived Service, in its own words. Empty: it didn't.
	Refused string
}

// Own is what a cluster's own objects say of a service. Of one that it doesn't have, or has no longer, they say nothing.
type Own struct {
	ClusterIPs []string
	// Ports are the Service's. They only tell hold.Retain their own names.
	Ports     []corev1.ServicePort
	Endpoints []*clustersetv1alpha1.ExportedEndpoints
	// Nodes has the names of the nodes that endpoints are on, by address.
	Nodes map[string]string
}

// Output is what the objects should be. It has no ServiceImport where nobody exports the service.
type Output struct {
	Resolved merge.Resolved

	// ServiceImport has its status filled in.
	ServiceImport *mcsv1beta1.ServiceImport
	// Derived is the Service behind the ClusterSetIP; nil where there is none.
	Derived *corev1.Service
	// Slices are sorted by name, and without owner, whose UID nobody knows before it exists.
	Slices []*discoveryv1.EndpointSlice
	// Global has its status filled in; nil where it is skipped.
	Global *fabedgev1alpha1.GlobalService

	// Drops are the parts of the records that were left out.
	Drops []merge.Drop
}

// Current is the local objects of one service as the cache has them, each nil where it doesn't exist. Someone else's are
// among them, but for slices: those are found by our labels. Nothing of them is changed.
type Current struct {
	ServiceImport *mcsv1beta1.ServiceImport
	Derived       *corev1.Service
	Global        *fabedgev1alpha1.GlobalService
	Slices        []*discoveryv1.EndpointSlice // sorted by name
}

// Slice returns ours of that name, nil where there is none.
func (c Current) Slice(name string) *discoveryv1.EndpointSlice { return sliceOf(c.Slices, name) }

func sliceOf(sorted []*discoveryv1.EndpointSlice, name string) *discoveryv1.EndpointSlice {
	i, ok := slices.BinarySearchFunc(sorted, name, func(s *discoveryv1.EndpointSlice, name string) int { return cmp.Compare(s.Name, name) })
	if !ok {
		return nil
	}
	return sorted[i]
}

// StaleSlices returns our slices that out doesn't have.
func (c Current) StaleSlices(out Output) []*discoveryv1.EndpointSlice {
	var stale []*discoveryv1.EndpointSlice
	for _, s := range c.Slices {
		if sliceOf(out.Slices, s.Name) == nil {
			stale = append(stale, s)
		}
	}
	return stale
}

// Compute returns the objects that a service's records come to. It is pure, and it depends on no order: lists come out
// sorted, because an object that only changes its order is written and watched for nothing.
func Compute(in Input) Output { return new(Memory).Compute(in, Current{}) }

// Compute is Compute for who works on the service again and again. Slices of cur that have been found to be what they should be, and
// still should, are in the output as they are.
func (m *Memory) Compute(in Input, cur Current) Output {
	in.localFirst()
	w := &work{in: &in, memory: m, merged: m.merge(&in)}
	m.begin(w)
	defer m.end()
	out := Output{Resolved: w.resolved, Drops: w.admit()}
	if len(w.resolved.Clusters) == 0 {
		return out
	}
	out.Derived = w.derivedService()
	out.Slices = w.endpointSlices(cur)
	out.ServiceImport = w.serviceImport(len(out.Slices) > 0)
	if !in.SkipGlobal {
		out.Global = w.globalService()
	}
	return out
}

// joined is a merge.Joined.
func (in *Input) joined(cluster string, record *clustersetv1alpha1.ExportedService) time.Time {
	if in.Remembered[cluster] {
		return time.Time{}
	}
	return merge.JoinedBy(func(cluster string) *clustersetv1alpha1.MemberCluster { return in.Members[cluster] })(cluster, record)
}

// localFirst replaces the addresses that the hub has of this cluster by those that are here.
func (in *Input) localFirst() {
	i := slices.IndexFunc(in.Services, func(s *clustersetv1alpha1.ExportedService) bool {
		cluster, ok := s.SourceCluster()
		return ok && cluster == in.Cluster
	})
	if in.Own == nil || i < 0 {
		in.Own = nil
		return
	}
	in.Services = slices.Clone(in.Services)
	own := *in.Services[i]
	if own.Spec.Type == mcsv1beta1.ClusterSetIP {
		own.Spec.ClusterIPs = in.Own.ClusterIPs
	}
	in.Services[i] = &own
	in.Endpoints = slices.DeleteFunc(slices.Clone(in.Endpoints), func(e *clustersetv1alpha1.ExportedEndpoints) bool {
		cluster, ok := e.SourceCluster()
		return ok && cluster == in.Cluster
	})
	in.Endpoints = append(in.Endpoints, in.Own.Endpoints...)
}

// work is what the builders of the single objects share.
type work struct {
	in     *Input
	memory *Memory
	*merged
	records []*record

	seen    []topology.View // see views
	offered *bool           // see anyOffered
}

// isOwn says whether the cluster is this one, and its endpoints are those that are here.
func (w *work) isOwn(cluster string) bool { return w.in.Own != nil && cluster == w.in.Cluster }

func (w *work) objectMeta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: w.in.Key.Namespace, Name: name, Labels: Labels()}
}

// hasVIP says whether the service gets a ClusterSetIP here. Without ports, which no exporting Service lacks but all of which
// may have been of no use, the API server would refuse the derived Service.
func (w *work) hasVIP() bool {
	return w.resolved.Type == mcsv1beta1.ClusterSetIP && w.in.DataPath != DataPathNone && len(w.resolved.Ports) > 0
}

// exposed returns the ports of the merged service that the cluster exposes exactly.
func (w *work) exposed(cluster string) []merge.Port {
	all := true
	for _, p := range w.resolved.Ports {
		all = all && p.ExposedBy(cluster)
	}
	if all {
		return w.resolved.Ports
	}
	var ports []merge.Port
	for _, p := range w.resolved.Ports {
		if p.ExposedBy(cluster) {
			ports = append(ports, p)
		}
	}
	return ports
}

// confineIPs returns those of a cluster's ClusterIPs that lie in the networks an administrator gave it on the hub. It keeps a member
// from exporting another's addresses.
func confineIPs(cluster string, cidrs []string, s *clustersetv1alpha1.ExportedService, drops *[]merge.Drop) []string {
	beyond := outside(cluster, "ExportedService", s.Name, field.NewPath("spec", "clusterIPs"), cidrs, drops)
	return slices.DeleteFunc(slices.Clone(s.Spec.ClusterIPs), beyond)
}

// confineEndpoints is confineIPs for endpoints, in place: the record is a sanitized copy.
func confineEndpoints(cluster string, cidrs []string, e *clustersetv1alpha1.ExportedEndpoints, drops *[]merge.Drop) {
	beyond := outside(cluster, "ExportedEndpoints", e.Name, field.NewPath("spec", "endpoints"), cidrs, drops)
	e.Spec.Endpoints = slices.DeleteFunc(e.Spec.Endpoints, func(ep discoveryv1.Endpoint) bool {
		// One bad address is reason enough: an endpoint's addresses are one and the same backend's.
		return slices.ContainsFunc(ep.Addresses, beyond)
	})
}

// outside returns what says, and notes, that an address lies in none of a cluster's networks.
func outside(cluster, kind, record string, path *field.Path, cidrs []string, drops *[]merge.Drop) func(string) bool {
	var networks []netip.Prefix
	for _, cidr := range cidrs {
		if p, err := netip.ParsePrefix(cidr); err == nil {
			networks = append(networks, p)
		}
	}
	return func(s string) bool {
		addr, err := netip.ParseAddr(s)
		if err == nil && slices.ContainsFunc(networks, func(p netip.Prefix) bool { return p.Contains(addr) }) {
			return false
		}
		*drops = append(*drops, merge.Drop{
			Cluster: cluster, Kind: kind, Record: record,
			Err: field.Invalid(path, s, fmt.Sprintf("must lie in one of the cluster's networks, %v", cidrs)),
		})
		return true
	}
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
