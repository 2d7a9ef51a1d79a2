package preview

import (
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/index"
	"github.com/clusterset/clusterset/internal/merge"
)

// Exported is a service as its exports state it, whatever place it is seen from. Its Conflicts are those that any cluster sees.
type Exported struct {
	merge.Resolved
	Readiness
	// By are the exports, by cluster.
	By []Exporter
}

// Readiness is how many endpoints of a service are ready.
type Readiness struct {
	// Ready is the number of ready endpoints in clusters that send heartbeats. Silent is that in Suspect ones, which are used last; nobody uses
	// those of Expired ones.
	Ready  int `json:"ready"`
	Silent int `json:"silent,omitempty"`
}

// Add adds the ready endpoints of a cluster.
func (r *Readiness) Add(ready int, of clustersetv1alpha1.MemberClusterPhase) {
	switch of {
	case clustersetv1alpha1.MemberSuspect:
		r.Silent += ready
	case clustersetv1alpha1.MemberExpired:
	default:
		r.Ready += ready
	}
}

// Exporter is one cluster's export of a service.
type Exporter struct {
	merge.Export
	// Endpoints is the number of endpoints that it exports, and Ready that of the ready ones. One with an address of each family
	// counts once.
	Ready, Endpoints int
}

// Exported returns a service, or nil if no cluster exports it.
func (s *State) Exported(key types.NamespacedName) *Exported {
	exports := s.exports(key)
	if len(exports) == 0 {
		return nil
	}
	e := &Exported{Resolved: merge.Resolve(exports)}
	e.Conflicts = s.views.Conflicts(exports)
	all, ready := s.services[key].addrs()
	for _, x := range exports {
		by := Exporter{Export: x, Ready: Distinct(ready[x.Cluster]), Endpoints: Distinct(all[x.Cluster])}
		var phase clustersetv1alpha1.MemberClusterPhase
		if m := s.Member(x.Cluster); m != nil {
			phase = m.Status.Phase
		}
		e.Add(by.Ready, phase)
		e.By = append(e.By, by)
	}
	return e
}

// exports returns a service's exports, none if no cluster exports it.
func (s *State) exports(key types.NamespacedName) []merge.Export {
	exports, _ := merge.Exports(s.services[key].values(), merge.JoinedBy(s.Member))
	return exports
}

// addrs returns the addresses of all endpoints and of the ready ones, by cluster. A ClusterIP is no endpoint, although DNS answers with one that
// has nothing behind it, and external addresses lead to the same endpoints.
func (r records) addrs() (all, ready map[string][]netip.Addr) {
	all, ready = map[string][]netip.Addr{}, map[string][]netip.Addr{}
	for _, record := range r.endpoints {
		cluster := of(record)
		for i := range record.Spec.Endpoints {
			e := &record.Spec.Endpoints[i]
			if record.Spec.External || len(e.Addresses) == 0 {
				continue
			}
			if addr, err := netip.ParseAddr(e.Addresses[0]); err == nil { // the others are not read, as in kube-proxy
				all[cluster] = append(all[cluster], addr)
				if ptr.Deref(e.Conditions.Ready, true) {
					ready[cluster] = append(ready[cluster], addr)
				}
			}
		}
	}
	return all, ready
}

// Distinct counts endpoints by their addresses: one with an address of each family is one.
func Distinct(addrs []netip.Addr) int {
	v4, v6 := index.SortAddrs(addrs).Split()
	return max(len(v4), len(v6))
}

// SameExported reports whether Exported returns the same for both States, because the objects are the same.
func (s *State) SameExported(other *State, key types.NamespacedName) bool {
	a, b := s.services[key], other.services[key]
	if len(a.services) == 0 || !slices.Equal(a.services, b.services) || !slices.Equal(a.endpoints, b.endpoints) {
		return false
	}
	if limited := !s.views.Alike(a.services) || !other.views.Alike(a.services); limited && !s.views.Equal(other.views) {
		return false
	}
	return !slices.ContainsFunc(a.services, func(r *clustersetv1alpha1.ExportedService) bool { return s.members[of(r)] != other.members[of(r)] })
}

// Objects returns what an importer in the cluster would write for a service, with the MemberClusters that it would copy. Where DNS
// answers with the ClusterSetIPs of the service, these are stand-ins (IsStandIn): the hub has no record of them.
func (s *State) Objects(key types.NamespacedName, cluster string, o Options) []runtime.Object {
	objects := s.look(key, &o).from(cluster).written
	for _, name := range s.Clusters() {
		if s.ranked[name] != nil {
			objects = append(objects, s.usable[name])
		}
	}
	return objects
}

// Records returns the ExportedServices of a service. They must not be changed.
func (s *State) Records(key types.NamespacedName) []*clustersetv1alpha1.ExportedService {
	return s.services[key].services
}

// IsStandIn reports whether the address stands for one that isn't known.
func IsStandIn(address string) bool { return slices.Contains(standIn.Spec.ClusterIPs, address) }
