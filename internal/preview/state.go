package preview

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/internal/index"
)

// State is a set of clusters as its hub has it. It never changes: Apply returns another one.
type State struct {
	members  map[string]*clustersetv1alpha1.MemberCluster
	services map[types.NamespacedName]*records
	// down are the clusters that don't run. Whatever their phase, their endpoints serve nobody.
	down map[string]bool

	// Of members, as importers and DNS servers take them.
	usable map[string]*clustersetv1alpha1.MemberCluster
	ranked map[string]*index.Cluster
	// kinds are equal for clusters that lie alike, and see alike what they don't export.
	kinds map[string]string
}

// records are what clusters say of a service. Neither is changed once it is part of a State.
type records struct {
	services  []*clustersetv1alpha1.ExportedService
	endpoints []*clustersetv1alpha1.ExportedEndpoints
}

// exports says whether the cluster has a record of the service.
func (r *records) exports(cluster string) bool {
	return slices.ContainsFunc(r.services, func(s *clustersetv1alpha1.ExportedService) bool { return of(s) == cluster })
}

// without returns the records of all clusters but one.
func (r *records) without(cluster string) *records {
	return &records{
		slices.DeleteFunc(slices.Clone(r.services), func(s *clustersetv1alpha1.ExportedService) bool { return of(s) == cluster }),
		slices.DeleteFunc(slices.Clone(r.endpoints), func(e *clustersetv1alpha1.ExportedEndpoints) bool { return of(e) == cluster }),
	}
}

// of returns the cluster that a record is of, empty for a stray one.
func of(record interface{ SourceCluster() (string, bool) }) string {
	cluster, _ := record.SourceCluster()
	return cluster
}

// NewState returns what the hub's objects come to. Clusters that have left have no part in it. The objects are not changed, and mustn't
// be as long as the State is used.
func NewState(members []clustersetv1alpha1.MemberCluster, services []clustersetv1alpha1.ExportedService, endpoints []clustersetv1alpha1.ExportedEndpoints) *State {
	s := &State{members: map[string]*clustersetv1alpha1.MemberCluster{}, services: map[types.NamespacedName]*records{}}
	left := map[string]bool{}
	for i := range members {
		if m := &members[i]; m.Left() {
			left[m.Name] = true
		} else {
			s.members[m.Name] = m
		}
	}
	at := func(key types.NamespacedName) *records {
		if s.services[key] == nil {
			s.services[key] = &records{}
		}
		return s.services[key]
	}
	for i := range services {
		if r := &services[i]; !left[of(r)] {
			key, _ := desired.ServiceOf(r)
			at(key).services = append(at(key).services, r)
		}
	}
	for i := range endpoints {
		if r := &endpoints[i]; !left[of(r)] {
			key, _ := desired.ServiceOf(r)
			at(key).endpoints = append(at(key).endpoints, r)
		}
	}
	maps.DeleteFunc(s.services, func(_ types.NamespacedName, r *records) bool { return len(r.services) == 0 }) // yet to come, or going
	return s.known()
}

// known fills in what follows from the members.
func (s *State) known() *State {
	s.usable = make(map[string]*clustersetv1alpha1.MemberCluster, len(s.members))
	s.ranked = make(map[string]*index.Cluster, len(s.members))
	s.kinds = make(map[string]string, len(s.members))
	for name, m := range s.members {
		usable, errs := desired.Usable(m)
		s.usable[name] = usable
		s.kinds[name] = fmt.Sprintf("%q %q %q", usable.AllZones(), usable.Status.Zones, usable.Spec.Region)
		if len(errs) > 0 {
			continue // no importer copies it
		}
		if c, _ := index.FromMemberCluster(m); c != nil {
			s.ranked[name] = c
		}
	}
	return s
}

// Clusters returns the names of the set's clusters, sorted.
func (s *State) Clusters() []string { return slices.Sorted(maps.Keys(s.members)) }

// Services returns the services that are exported, sorted.
func (s *State) Services() []types.NamespacedName {
	return slices.SortedFunc(maps.Keys(s.services), compareKeys)
}

func compareKeys(a, b types.NamespacedName) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

// copy returns a State that can be changed by replacing what its maps hold.
func (s *State) copy() *State {
	down := maps.Clone(s.down)
	if down == nil {
		down = map[string]bool{}
	}
	return &State{members: maps.Clone(s.members), services: maps.Clone(s.services), down: down}
}
