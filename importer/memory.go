package importer

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// memories has what is remembered of each imported service. Several services are reconciled in parallel, each by one worker at a time.
type memories struct {
	mu sync.Mutex
	of map[types.NamespacedName]*memory
}

func newMemories() *memories { return &memories{of: map[types.NamespacedName]*memory{}} }

func (m *memories) get(service types.NamespacedName) *memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.of[service] == nil {
		m.of[service] = &memory{}
	}
	return m.of[service]
}

func (m *memories) forget(service types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.of, service)
}

// memory is what is remembered of a service.
type memory struct {
	restored restored
	failed   bool // the last writes, other than because somebody else had written meanwhile

	global knownGlobal
}
