// Package desired is the pure middle of the importer. From the hub's records of a service and this cluster's own state it
// computes the service's ServiceImport, EndpointSlices, derived Service and GlobalService. Values in, values out: package
// importer fetches the input and writes the differences.
package desired

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
	"github.com/clusterset/clusterset/internal/door"
	"github.com/clusterset/clusterset/internal/merge"
	"github.com/clusterset/clusterset/internal/topology"
)

// Input is everything the objects of one service depend on.
type Input struct {
	Key      types.NamespacedName
	DataPath DataPath
	// Cluster is the name of the cluster that the objects are for.
	Cluster string
	// Nodes are the locations of its nodes, sorted, without duplicates. Empty means unknown.
	Nodes []topology.Location
	// LabelsOnly says that something in this cluster reads no hints.
	LabelsOnly bool
	// Distribution is the derived Service's trafficDistribution; nil where the API server doesn't know the field.
	Distribution *string
	// Policy is the default for what the service's own policy doesn't state.
	Policy topology.Policy

	// Exports and Endpoints are the records of the service: the hub's, and those of parts that stay without one (importer/effective).
	Exports   []*door.Export
	Endpoints []*door.Endpoints
	// Unconfirmed are the clusters whose records are those of the last import, because the hub has none, sorted.
	Unconfirmed []string
	// Own is the state of the service in this cluster; nil means unknown. If this cluster exports the service, its own addresses
	// count instead of the hub's, because the hub may be unreachable or behind. The merge still uses the hub's record of every
	// cluster, so that all clusters get the same result.
	Own *Own
	// Members are the MemberClusters of the clusters that the records come from, and of this cluster, as far as they exist.
	Members map[string]*clustersetv1alpha1.MemberCluster
	// Returning are clusters that are Ready again, but not yet for long enough to be used as Ready.
	Returning map[string]bool
	// Unreachable reports which clusters this one can't reach. Nil means that nothing is known.
	Unreachable func(cluster string) bool

	// Forbidden are the networks in which no external address of another network's cluster may be.
	Forbidden []netip.Prefix

	// Extended is this cluster's own Service of that name, if it asks for endpoints of other clusters; else nil.
	Extended *Extended

	// Names says that the importer is to make the Service of that name, because nobody else has made one. Named is that Service, nil if
	// there is none yet.
	Names bool
	Named *corev1.Service

	// SkipGlobal leaves the GlobalService out.
	SkipGlobal bool

	// Capped are clusters that export more services than are imported from one cluster, if this service is one of those left out.
	Capped map[string]bool

	// Derived is the current derived Service, nil if it doesn't exist yet. The API server chose its addresses.
	Derived *corev1.Service
}

// Own is the state of a service in this cluster's own objects. It is empty if the cluster doesn't have the service, or no longer has it.
type Own struct {
	ClusterIPs []string
	Endpoints  []*door.Endpoints
	// Nodes has the names of the nodes that endpoints are on, by their first address.
	Nodes map[netip.Addr]string
}

// Output has the desired objects. There is no ServiceImport if no cluster exports the service.
type Output struct {
	Resolved merge.Resolved

	// ServiceImport has its status filled in.
	ServiceImport *mcsv1beta1.ServiceImport
	// Derived is the Service behind the ClusterSetIP, or nil.
	Derived *corev1.Service
	// Slices are sorted by name. They have no owner reference, because the owner's UID is unknown before it exists.
	Slices []*discoveryv1.EndpointSlice
	// Global has its status filled in; nil where it is skipped.
	Global *fabedgev1alpha1.GlobalService
	// Named is the Service under the service's own name, nil if the importer makes none.
	Named *corev1.Service
	// Extending are the slices behind Named, or that extend this cluster's own Service, sorted by name, without an owner reference. NotExtended says
	// why there are none, or why they aren't used as the service's policy wants, and what to do about it; empty if all is as asked for.
	Extending   []*discoveryv1.EndpointSlice
	NotExtended string

	// Drops are the parts of the records that can't be imported.
	Drops []merge.Drop

	work *work
}

// ImportWith returns the ServiceImport once it is known what became of the derived Service, nil if there is none. blocked is why something couldn't
// be written until somebody changes that, or else empty. Nothing else depends on that.
func (o Output) ImportWith(derived *corev1.Service, blocked string) *mcsv1beta1.ServiceImport {
	imp := o.work.serviceImport(derived)
	imp.Status.Conditions = slices.Concat(imp.Status.Conditions, complete(o.Drops, blocked), o.work.endpoints(), confirmed(o.work.in.Unconfirmed))
	return imp
}

// Current has the local objects of one service from the cache. Each is nil if it doesn't exist. They may belong to someone else,
// except slices, which are found by the importer's labels. They are never modified.
type Current struct {
	ServiceImport *mcsv1beta1.ServiceImport
	Derived       *corev1.Service
	Named         *corev1.Service // the importer's under the service's own name
	Global        *fabedgev1alpha1.GlobalService
	Slices        []*discoveryv1.EndpointSlice // sorted by name
	Extending     []*discoveryv1.EndpointSlice // sorted by name
}

// Slice returns the importer's slice of that name, or nil.
func (c Current) Slice(name string) *discoveryv1.EndpointSlice { return sliceOf(c.Slices, name) }

func sliceOf(sorted []*discoveryv1.EndpointSlice, name string) *discoveryv1.EndpointSlice {
	i, ok := slices.BinarySearchFunc(sorted, name, func(s *discoveryv1.EndpointSlice, name string) int { return cmp.Compare(s.Name, name) })
	if !ok {
		return nil
	}
	return sorted[i]
}

// StaleSlices returns the importer's slices that out doesn't have.
func (c Current) StaleSlices(out Output) []*discoveryv1.EndpointSlice {
	var stale []*discoveryv1.EndpointSlice
	for _, s := range c.Slices {
		if sliceOf(out.Slices, s.Name) == nil {
			stale = append(stale, s)
		}
	}
	return stale
}

// Compute returns the objects for a service's records. It is pure, and independent of the input's order. Lists come out sorted:
// otherwise objects would be written and watched for changes of order only. The objects share memory with the input, and with each other.
func Compute(in Input) Output {
	here := in.Own
	in.localFirst()
	w := &work{in: &in}
	drops := w.merge()
	in.byNetwork(w.resolved.Type == mcsv1beta1.Headless)
	w.views = w.seenFrom()
	out := Output{Resolved: w.resolved, Drops: append(drops, w.admit()...)}
	if len(w.clusters) == 0 {
		_, out.NotExtended = w.extending(nil, nil)
		return out
	}
	out.Derived = w.derivedService()
	routed, others := w.routed()
	out.Slices = w.endpointSlices(routed, others)
	out.Extending, out.NotExtended = w.extending(here, routed)
	if out.Named = w.named(); out.Named != nil {
		out.Extending = w.behindNamed(out.Slices)
	}
	out.work = w
	out.ServiceImport = out.ImportWith(in.Derived, "")
	if !in.SkipGlobal {
		out.Global = w.globalService()
	}
	return out
}

func (in *Input) memberCluster(name string) *clustersetv1alpha1.MemberCluster {
	return in.Members[name]
}

// localFirst replaces the hub's addresses of this cluster with the local ones.
func (in *Input) localFirst() {
	i := slices.IndexFunc(in.Exports, func(e *door.Export) bool { return e.Cluster == in.Cluster && e.Spec != nil })
	if in.Own == nil || i < 0 {
		in.Own = nil
		return
	}
	own, spec := *in.Exports[i], *in.Exports[i].Spec
	if spec.Type == mcsv1beta1.ClusterSetIP {
		spec.ClusterIPs = in.Own.ClusterIPs
	}
	own.Spec = &spec
	in.Exports = slices.Clone(in.Exports)
	in.Exports[i] = &own
	in.Endpoints = slices.DeleteFunc(slices.Clone(in.Endpoints), func(e *door.Endpoints) bool { return e.Cluster == in.Cluster })
	in.Endpoints = append(in.Endpoints, in.Own.Endpoints...)
}

// work is the state that the builders of the objects share.
type work struct {
	in       *Input
	resolved merge.Resolved
	clusters []*cluster // that export the service, sorted by name
	records  []*record  // that can be imported, ordered by cluster and name
	views    []topology.View
}

func (w *work) objectMeta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: w.in.Key.Namespace, Name: name, Labels: Labels()}
}

// hasVIP reports whether the service gets a ClusterSetIP here. It needs a port, or the API server would refuse the derived Service.
// Every exporting Service has ports, but they may all be unusable.
func (w *work) hasVIP() bool {
	return w.resolved.Type == mcsv1beta1.ClusterSetIP && w.in.DataPath != DataPathNone && len(w.resolved.Ports) > 0
}

// cidrs are the networks that an administrator gave a cluster on the hub. They keep a member from exporting another member's addresses, and
// don't confine what this cluster has itself.
func (in *Input) cidrs(cluster string) []string {
	if member := in.Members[cluster]; member != nil && cluster != in.Cluster {
		return member.Spec.CIDRs
	}
	return nil
}

// familyOf returns the family of an address that has been parsed before.
func familyOf(address string) corev1.IPFamily {
	if addr, err := netip.ParseAddr(address); err == nil && addr.Is4() {
		return corev1.IPv4Protocol
	}
	return corev1.IPv6Protocol
}

// DataPath is the destination of traffic to a ClusterSetIP.
type DataPath string

const (
	// DataPathPods sends traffic to the pods of all clusters. It needs a pod network that all clusters share.
	DataPathPods DataPath = "pods"

	// DataPathClusterIPs sends traffic to the exporting Services' ClusterIPs. It needs a service network that is routed
	// between clusters, such as FabEdge's.
	DataPathClusterIPs DataPath = "clusterips"

	// DataPathNone assigns no ClusterSetIP and creates no Service. Names resolve to the exporters' own ClusterIPs,
	// which DNS takes from the GlobalService and ranks.
	DataPathNone DataPath = "none"
)

// ParseDataPath parses the value of the --data-path flag.
func ParseDataPath(s string) (DataPath, error) {
	switch d := DataPath(s); d {
	case DataPathPods, DataPathClusterIPs, DataPathNone:
		return d, nil
	}
	return "", fmt.Errorf("unknown data path %q: want pods, clusterips or none", s)
}

// member returns what ranking needs of a cluster. A cluster that is Ready again, but not yet for long enough, counts as Suspect.
func (in *Input) member(cluster string) (m topology.Member) {
	if from := in.Members[cluster]; from != nil {
		m.Zones, m.Region, m.Drain = from.AllZones(), from.Spec.Region, from.Spec.Drain
		switch from.Status.Phase {
		case clustersetv1alpha1.MemberSuspect:
			m.Phase = topology.Suspect
		case clustersetv1alpha1.MemberExpired:
			m.Phase = topology.Expired
		}
	}
	if in.Returning[cluster] {
		m.Phase = topology.Suspect
	}
	m.Unreachable = in.Unreachable != nil && in.Unreachable(cluster)
	return m
}
