package preview

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/internal/door"
	"github.com/clusterset/clusterset/internal/index"
	"github.com/clusterset/clusterset/internal/merge"
)

// State is a cluster set as recorded on its hub. It is immutable: Apply returns a new one.
type State struct {
	members  map[string]*clustersetv1alpha1.MemberCluster
	services map[types.NamespacedName]records
	// down are the clusters that don't run. Whatever their phase, their endpoints serve no client.
	down map[string]bool
	// unreachable are the clusters that a cluster can't reach, sorted: those that its report names, and those of changes.
	unreachable map[string][]string

	// The MemberClusters as importers (usable) and DNS servers (ranked) read them.
	usable map[string]*clustersetv1alpha1.MemberCluster
	ranked map[string]*index.Cluster
	// inside are, by network, the addresses of its clusters, where no external address of another network is used.
	inside map[string][]netip.Prefix
	// kinds are equal for clusters of one network with the same zones and region that reach the same others. If they see the same exports of a service, and none is theirs, they
	// see the service alike.
	kinds map[string]string
	// views says who sees the same exports.
	views *merge.Views
}

// records are the records of a service from all clusters. They don't change once they are part of a State.
type records struct {
	services  []*clustersetv1alpha1.ExportedService
	endpoints []*clustersetv1alpha1.ExportedEndpoints
}

// values returns what is read of the exports.
func (r records) values() []*door.Export {
	all := make([]*door.Export, len(r.services))
	for i, s := range r.services {
		all[i] = door.CompactService(s, time.Now())
	}
	return all
}

// exports reports whether the cluster has a record of the service.
func (r records) exports(cluster string) bool {
	return slices.ContainsFunc(r.services, func(s *clustersetv1alpha1.ExportedService) bool { return of(s) == cluster })
}

// without returns the records of all other clusters.
func (r records) without(cluster string) records {
	return records{
		slices.DeleteFunc(slices.Clone(r.services), func(s *clustersetv1alpha1.ExportedService) bool { return of(s) == cluster }),
		slices.DeleteFunc(slices.Clone(r.endpoints), func(e *clustersetv1alpha1.ExportedEndpoints) bool { return of(e) == cluster }),
	}
}

// of returns the cluster that wrote a record, or "" if the record is in no member's namespace.
func of(record interface{ SourceCluster() (string, bool) }) string {
	cluster, _ := record.SourceCluster()
	return cluster
}

// NewState returns the State of a hub's objects. It ignores clusters that have left, and objects of other kinds. The objects are not
// changed, and must not be changed as long as the State is used.
func NewState(objects []runtime.Object) *State {
	s := &State{
		members: map[string]*clustersetv1alpha1.MemberCluster{}, services: map[types.NamespacedName]records{}, down: map[string]bool{}, unreachable: map[string][]string{},
	}
	left := map[string]bool{}
	for _, o := range objects {
		if m, ok := o.(*clustersetv1alpha1.MemberCluster); ok && m.Left() {
			left[m.Name] = true
		} else if ok {
			s.members[m.Name] = m
		}
	}
	for _, o := range objects {
		switch r := o.(type) {
		case *clustersetv1alpha1.ExportedService:
			if key, _ := desired.ServiceOf(r); !left[of(r)] && r.Exports() {
				all := s.services[key]
				s.services[key] = records{append(all.services, r), all.endpoints}
			}
		case *clustersetv1alpha1.ExportedEndpoints:
			if key, _ := desired.ServiceOf(r); !left[of(r)] {
				all := s.services[key]
				s.services[key] = records{all.services, append(all.endpoints, r)}
			}
		case *clustersetv1alpha1.MemberReport: // D52 of docs/spec/data-path.md
			if cluster, ok := api.ClusterOfNamespace(r.Namespace); ok {
				names := api.ClusterNames(r.Spec.Unreachable)
				slices.Sort(names)
				s.unreachable[cluster] = slices.Compact(names)
			}
		}
	}
	maps.DeleteFunc(s.services, func(_ types.NamespacedName, r records) bool { return len(r.services) == 0 }) // no ExportedService yet, or no longer
	return s.known()
}

// known computes what follows from the members.
func (s *State) known() *State {
	s.usable = make(map[string]*clustersetv1alpha1.MemberCluster, len(s.members))
	s.ranked = make(map[string]*index.Cluster, len(s.members))
	s.kinds = make(map[string]string, len(s.members))
	s.views = merge.NewViews(s.members)
	for name, m := range s.members {
		usable, _ := m.Sanitized()
		s.usable[name] = usable
		s.kinds[name] = where(usable) + fmt.Sprintf("%q", s.unreachable[name])
		if c, _ := index.FromMemberCluster(usable); c != nil {
			s.ranked[name] = c
		}
	}
	s.inside = map[string][]netip.Prefix{}
	for _, m := range s.usable {
		if _, known := s.inside[m.Spec.Network]; !known {
			s.inside[m.Spec.Network] = desired.Inside(m, maps.Values(s.usable))
		}
	}
	return s
}

// where says where a cluster is.
func where(m *clustersetv1alpha1.MemberCluster) string {
	return fmt.Sprintf("%q %q %q %q", m.AllZones(), m.Status.Zones, m.Spec.Region, m.Spec.Network)
}

// Clusters returns the names of the set's clusters, sorted.
func (s *State) Clusters() []string { return slices.Sorted(maps.Keys(s.members)) }

// Member returns a cluster's MemberCluster, or nil. It must not be changed.
func (s *State) Member(name string) *clustersetv1alpha1.MemberCluster { return s.members[name] }

// Down reports whether a change has let the cluster fail.
func (s *State) Down(name string) bool { return s.down[name] }

// CantReach returns the clusters that a cluster can't reach, sorted. They must not be changed.
func (s *State) CantReach(name string) []string { return s.unreachable[name] }

// Exports returns the number of services that each cluster exports.
func (s *State) Exports() map[string]int {
	n := map[string]int{}
	for _, r := range s.services {
		for _, e := range r.services {
			n[of(e)]++
		}
	}
	return n
}

// Services returns the services that are exported, sorted.
func (s *State) Services() []types.NamespacedName {
	return slices.SortedFunc(maps.Keys(s.services), compareKeys)
}

func compareKeys(a, b types.NamespacedName) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

// copy returns a State whose maps can be changed.
func (s *State) copy() *State {
	return &State{members: maps.Clone(s.members), services: maps.Clone(s.services), down: maps.Clone(s.down), unreachable: maps.Clone(s.unreachable)}
}
