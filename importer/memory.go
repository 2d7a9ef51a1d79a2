package importer

import (
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/internal/packed"
)

// memories remembers the last computation of each imported service, so that an event costs only what has changed. Several
// services are reconciled in parallel, each by one worker at a time.
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
	desired.Memory
	own   *desired.Own
	ownOf []desired.Version // the slices that own was made of

	// services and endpoints are the records that were last admitted, sorted. They are those on the hub, unless a change waits.
	services, endpoints []version

	complete bool     // all that is imported has a record on the hub
	owing    []string // clusters that pay for a reconcile that has to be repeated

	// prepared is when slices first had the ports that the derived Service is about to get; zero: it gets none.
	prepared time.Time
	// former are the names that ports of the derived Service had before they were renamed. They count until formerUntil.
	former      []desired.PortName
	formerUntil time.Time

	restored restored
	failed   bool // the last writes, other than because somebody else had written meanwhile

	globalHere  packed.Object[*fabedgev1alpha1.GlobalService] // as last written or read
	globalWrote time.Time                                     // when the GlobalService was last written; zero: not since we remember
	globalFor   []string                                      // clusters whose changes of records it doesn't have yet
	globalNow   bool                                          // whether something else changed too, which doesn't wait for their write budgets
	globalWaits bool                                          // whether it waits for its turn to be written
}

// ownAgain returns what this cluster's objects gave the last time if they are the same, or else nil.
func (m *memory) ownAgain(svc *corev1.Service, all []discoveryv1.EndpointSlice) *desired.Own {
	if m.own != nil && slices.Equal(m.own.ClusterIPs, desired.ClusterIPs(svc)) &&
		slices.EqualFunc(m.ownOf, all, func(v desired.Version, s discoveryv1.EndpointSlice) bool { return v.Same(desired.VersionOf(&s)) }) {
		return m.own
	}
	return nil
}
