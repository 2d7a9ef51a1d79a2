package importer

import (
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"

	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
)

// writesAtOnce and writesEvery are how often a service's objects are written: so many times at once, and then once in that time (rule C79 of
// docs/spec/control-plane.md). Whoever keeps changing them, such as another controller or an admission webhook, may do so at each of our writes, as
// fast as the API server allows.
const writesAtOnce, writesEvery = 20, time.Second / 5

// memories has what is remembered of each imported service. Several services are reconciled in parallel, each by one worker at a time.
type memories struct {
	mu sync.Mutex
	of map[types.NamespacedName]*memory
}

// memory is what is remembered of a service, or of a MemberCluster, whose key has no namespace.
type memory struct {
	writes *rate.Limiter
	global knownGlobal
	said   said
}

// knownGlobal is what is remembered of a GlobalService of ours as it was written or read last. It is that until it has another version.
type knownGlobal struct {
	version string
	hash    uint64 // see hashOfGlobal
	status  fabedgev1alpha1.GlobalServiceStatus
}

// said is what was last reported.
type said struct {
	state     state
	foreign   string // the kinds of objects of others that are in the way, with spaces between them
	truncated int
	refused   string // why the API server refuses its objects
	extended  state  // of the Service of this cluster
	unwilling string // why that isn't extended
	lost      bool   // by the hub: a MemberCluster
}

func newMemories() *memories { return &memories{of: map[types.NamespacedName]*memory{}} }

func (m *memories) get(service types.NamespacedName) *memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.of[service] == nil {
		m.of[service] = &memory{writes: rate.NewLimiter(rate.Every(writesEvery), writesAtOnce)}
	}
	return m.of[service]
}

// forget forgets a service of which nothing is written at this moment. So nothing is in the way of it, or too large.
func (m *memories) forget(service types.NamespacedName) {
	m.get(service).global = knownGlobal{}
	m.say(service, func(s *said) { s.foreign, s.truncated, s.refused = "", 0, "" })
}

// say changes what was last reported of a service, and counts it. A service of which nothing is reported is forgotten.
func (m *memories) say(service types.NamespacedName, change func(*said)) (was, is said) {
	of := m.get(service)
	m.mu.Lock()
	defer m.mu.Unlock()
	was = of.said
	change(&of.said)
	if is = of.said; is != was {
		was.count(-1)
		is.count(1)
	}
	if is == (said{}) && of.global.version == "" {
		delete(m.of, service)
	}
	return was, is
}

// count adds what is reported to the gauges, or takes it away.
func (s said) count(by float64) {
	if s.state != "" {
		servicesGauge.WithLabelValues(string(s.state)).Add(by)
	}
	for kind := range strings.FieldsSeq(s.foreign) {
		foreignGauge.WithLabelValues(kind).Add(by)
	}
	truncatedGauge.Add(by * float64(s.truncated))
	if s.extended != "" {
		extendedGauge.WithLabelValues(string(s.extended)).Add(by)
	}
	if s.lost {
		awaitedGauge.Add(by)
	}
}
