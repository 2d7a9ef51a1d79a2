package console

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/preview"
)

// set is the hub's records at one time.
type set struct {
	state   *preview.State
	members []*clustersetv1alpha1.MemberCluster
	// exports is the number of services that a cluster exports.
	exports map[string]int
	items   map[types.NamespacedName]*Item
	// endpoints are those of all services.
	endpoints []*clustersetv1alpha1.ExportedEndpoints
	keys      []types.NamespacedName // of the items, sorted
}

// newSet returns the set of a hub's objects. It reuses the unchanged items of an earlier set.
func newSet(objects []runtime.Object, earlier *set) *set {
	s := &set{state: preview.NewState(objects), exports: map[string]int{}, items: map[types.NamespacedName]*Item{}}
	for _, o := range objects {
		switch o := o.(type) {
		case *clustersetv1alpha1.MemberCluster:
			s.members = append(s.members, o)
		case *clustersetv1alpha1.ExportedService:
			cluster, _ := o.SourceCluster()
			s.exports[cluster]++
		case *clustersetv1alpha1.ExportedEndpoints:
			s.endpoints = append(s.endpoints, o)
		}
	}
	slices.SortFunc(s.members, func(a, b *clustersetv1alpha1.MemberCluster) int { return cmp.Compare(a.Name, b.Name) })
	for _, key := range s.state.Services() {
		i := earlier.items[key]
		if i == nil || !s.state.SameExported(earlier.state, key) {
			i = item(s.state.Exported(key))
		}
		if i != nil {
			s.items[key] = i
			s.keys = append(s.keys, key)
		}
	}
	return s
}

// item returns a service as it is listed, or nil if there is none.
func item(e *preview.Exported) *Item {
	if e == nil {
		return nil
	}
	i := &Item{Namespace: e.Namespace, Name: e.Name, Type: string(e.Type), Winner: e.Winner, Readiness: e.Readiness, Policy: e.Policy.String()}
	differ, fields := map[string]bool{}, map[string]bool{}
	for _, c := range e.Conflicts {
		fields[c.Field] = true
		for _, cluster := range c.Clusters {
			differ[cluster] = true
		}
	}
	i.Conflicts = len(fields)
	for _, by := range e.By {
		i.Clusters = append(i.Clusters, Exporter{Name: by.Cluster, Ready: by.Ready, Endpoints: by.Endpoints, Conflicts: differ[by.Cluster]})
		if by.Cluster == e.Winner {
			i.ExportedAt = by.ExportedAt
		}
	}
	for _, p := range e.Ports {
		i.Ports = append(i.Ports, strings.TrimSpace(fmt.Sprintf("%s %d/%s", p.Name, p.Port, p.Protocol)))
	}
	return i
}
