package preview

import (
	"net/netip"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

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
	Cluster    string    `json:"name"`
	ExportedAt time.Time `json:"exportedAt"`
	ClusterIPs []string  `json:"clusterIPs,omitempty"`
	// ExportTo are the clusters and communities that it is for. Empty: all.
	ExportTo []string `json:"exportTo,omitempty"`
	// Endpoints is the number of endpoints that it exports, and Ready that of the ready ones. One with an address of each family
	// counts once.
	Ready     int `json:"ready"`
	Endpoints int `json:"endpoints"`
}

// Exported returns a service, or nil if no cluster exports it.
func (s *State) Exported(key types.NamespacedName) *Exported {
	r := s.services[key]
	if r == nil {
		return nil
	}
	exports, _ := merge.Exports(r.values(), merge.JoinedBy(s.Member))
	if len(exports) == 0 {
		return nil
	}
	e := &Exported{Resolved: merge.Resolve(exports)}
	if !s.views.Alike(r.services) {
		e.Conflicts = s.views.Conflicts(exports)
	}
	for _, x := range exports {
		by := Exporter{Cluster: x.Cluster, ExportedAt: x.Spec.ExportedAt.Time, ClusterIPs: x.Spec.ClusterIPs, ExportTo: x.Spec.ExportTo}
		by.Ready, by.Endpoints = r.endpointsOf(x)
		e.Add(by.Ready, s.phase(x.Cluster))
		e.By = append(e.By, by)
	}
	return e
}

func (s *State) phase(cluster string) clustersetv1alpha1.MemberClusterPhase {
	if m := s.Member(cluster); m != nil {
		return m.Status.Phase
	}
	return ""
}

// endpointsOf counts a cluster's endpoints. A ClusterIP is none, although DNS answers with one that has nothing behind it.
func (r *records) endpointsOf(x merge.Export) (ready, all int) {
	var addrs, readyAddrs []netip.Addr
	for _, record := range r.endpoints {
		if of(record) != x.Cluster || record.Spec.External { // external addresses lead to the same endpoints
			continue
		}
		for i := range record.Spec.Endpoints {
			e := &record.Spec.Endpoints[i]
			if len(e.Addresses) == 0 {
				continue
			}
			addr, err := netip.ParseAddr(e.Addresses[0]) // the others are not read, as in kube-proxy
			if err != nil {
				continue
			}
			addrs = append(addrs, addr)
			if e.Conditions.Ready == nil || *e.Conditions.Ready {
				readyAddrs = append(readyAddrs, addr)
			}
		}
	}
	return Distinct(readyAddrs), Distinct(addrs)
}

// Distinct counts endpoints by their addresses: one with an address of each family is one.
func Distinct(addrs []netip.Addr) int {
	v4, v6 := index.SortAddrs(addrs).Split()
	return max(len(v4), len(v6))
}

// SameExported reports whether Exported returns the same for both States, because the objects are the same.
func (s *State) SameExported(other *State, key types.NamespacedName) bool {
	a, b := s.services[key], other.services[key]
	if a == nil || b == nil || !slices.Equal(a.services, b.services) || !slices.Equal(a.endpoints, b.endpoints) {
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

// Unseen is the clusters that don't see a cluster's export of a service, for one reason.
type Unseen struct {
	Why  merge.Sight
	From []string
}

// Unseen returns the clusters that don't see an export of the service, by the exporting cluster, sorted.
func (s *State) Unseen(key types.NamespacedName) map[string][]Unseen {
	r := s.services[key]
	if r == nil || s.views.Alike(r.services) {
		return nil
	}
	exports, _ := merge.Exports(r.values(), nil)
	all := map[string][]Unseen{}
	for _, viewer := range s.Clusters() {
		sees := merge.Sees(viewer, s.Member)
		for _, e := range exports {
			why := sees(e.Cluster, e.Spec.ExportTo)
			if why == merge.Seen {
				continue
			}
			at := slices.IndexFunc(all[e.Cluster], func(u Unseen) bool { return u.Why == why })
			if at < 0 {
				at, all[e.Cluster] = len(all[e.Cluster]), append(all[e.Cluster], Unseen{Why: why})
			}
			all[e.Cluster][at].From = append(all[e.Cluster][at].From, viewer)
		}
	}
	return all
}

// Records returns the ExportedServices of a service. They must not be changed.
func (s *State) Records(key types.NamespacedName) []*clustersetv1alpha1.ExportedService {
	if r := s.services[key]; r != nil {
		return r.services
	}
	return nil
}

// IsStandIn reports whether the address stands for one that isn't known.
func IsStandIn(address string) bool { return slices.Contains(standIn.Spec.ClusterIPs, address) }
