package console

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/preview"
)

// set is the hub's records at one time.
type set struct {
	state   *preview.State
	keys    []types.NamespacedName // of all services, sorted
	members []*clustersetv1alpha1.MemberCluster
	// exports is the number of services that a cluster exports.
	exports map[string]int
}

func newSet(objects []runtime.Object) *set {
	s := &set{state: preview.NewState(objects), exports: map[string]int{}}
	s.keys = s.state.Services()
	for _, o := range objects {
		switch o := o.(type) {
		case *clustersetv1alpha1.MemberCluster:
			s.members = append(s.members, o)
		case *clustersetv1alpha1.ExportedService:
			cluster, _ := o.SourceCluster()
			s.exports[cluster]++
		}
	}
	slices.SortFunc(s.members, func(a, b *clustersetv1alpha1.MemberCluster) int { return cmp.Compare(a.Name, b.Name) })
	return s
}

// differs returns the Topics in which the set differs from an earlier one.
func (s *set) differs(earlier *set) (topics []Topic) {
	if !slices.Equal(s.members, earlier.members) || !maps.Equal(s.exports, earlier.exports) {
		topics = append(topics, TopicClusters)
	}
	if !slices.Equal(s.keys, earlier.keys) || slices.ContainsFunc(s.keys, func(key types.NamespacedName) bool { return !s.state.SameExported(earlier.state, key) }) {
		topics = append(topics, TopicServices)
	}
	return topics
}

// list is the list of all services, for the set that was last asked for.
type list struct {
	mu    sync.Mutex
	of    *set
	items map[types.NamespacedName]*Item
}

// get returns the services of a set. What hasn't changed since the last call is not computed again.
func (l *list) get(s *set) map[types.NamespacedName]*Item {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of == s {
		return l.items
	}
	items := make(map[types.NamespacedName]*Item, len(s.keys))
	for _, key := range s.keys {
		i := l.items[key]
		if i == nil || !s.state.SameExported(l.of.state, key) {
			i = item(s.state.Exported(key))
		}
		if i != nil {
			items[key] = i
		}
	}
	l.of, l.items = s, items
	return items
}

// item returns a service as it is listed, or nil if there is none.
func item(e *preview.Exported) *Item {
	if e == nil {
		return nil
	}
	i := &Item{Namespace: e.Namespace, Name: e.Name, Type: string(e.Type), Winner: e.Winner, Policy: e.Policy.String(), Conflicts: len(e.Conflicts)}
	differ := map[string]bool{}
	for _, c := range e.Conflicts {
		for _, cluster := range c.Clusters {
			differ[cluster] = true
		}
	}
	for _, by := range e.By {
		i.Clusters = append(i.Clusters, Exporter{Name: by.Cluster, Ready: by.Ready, Endpoints: by.Endpoints, Conflicts: differ[by.Cluster]})
		i.Ready += by.Ready
		if by.Cluster == e.Winner {
			i.ExportedAt = by.ExportedAt
		}
	}
	for _, p := range e.Ports {
		i.Ports = append(i.Ports, strings.TrimSpace(fmt.Sprintf("%s %d/%s", p.Name, p.Port, p.Protocol)))
	}
	return i
}
