package exporter

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/clusterset/clusterset/internal/nodes"
)

// nodeUsers are the services that are reached at ports of the nodes.
type nodeUsers struct {
	nodes *nodes.Nodes

	mu sync.Mutex
	of sets.Set[types.NamespacedName]
}

// nodesFor returns the nodes, or nil until they are known. The service is told when they change.
func (u *nodeUsers) nodesFor(user types.NamespacedName) []nodes.Node {
	u.mu.Lock()
	u.of.Insert(user)
	u.mu.Unlock()
	return u.nodes.All()
}

func (u *nodeUsers) forget(user types.NamespacedName) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.of.Delete(user)
}

func (u *nodeUsers) all() []types.NamespacedName {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.of.UnsortedList()
}
