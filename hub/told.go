package hub

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

const (
	// tellEvery is how often, at most, what a member states about itself changes its MemberCluster.
	tellEvery = time.Minute
	// tellSeldom is the same for a member whose statements keep changing.
	tellSeldom = 16 * time.Minute
	// toldQuiet is for how long none must have been told for the next to be told as the first.
	toldQuiet = 2 * tellSeldom
)

// told paces the facts of each member, which it can change as often as it likes: a MemberCluster is copied to all members, and zones may
// change each imported EndpointSlice and GlobalService there. The first change is told at once, the next ones at most once a minute, and
// half as often each time while they go on, at whatever pace. Phases aren't facts: a member can't be Suspect more often than it is silent.
// Rule C29 of docs/spec/control-plane.md.
type told struct {
	mu sync.Mutex
	of map[string]*telling
}

type telling struct {
	at    time.Time
	every time.Duration
	zones bool // whether zones have ever been told
	told  facts
}

// pace returns the facts for a member's status: as they are, or what the status says already and when to look again.
func (t *told) pace(mc *clustersetv1alpha1.MemberCluster, now facts, at time.Time) (facts, time.Duration) {
	was := factsIn(mc)
	if now.version == "" {
		now.version = was.version
	}
	if now.zones == nil {
		now.zones = was.zones
	}
	if now.namespaces == nil {
		now.namespaces = was.namespaces
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	last := t.of[mc.Name]
	if last == nil {
		if t.of == nil {
			t.of = map[string]*telling{}
		}
		last = &telling{every: tellEvery}
		t.of[mc.Name] = last
	}
	last.zones = last.zones || len(was.zones) > 0
	switch since := at.Sub(last.at); {
	case now.same(was), now.same(last.told): // the second if the write failed
		return now, 0
	case was.version == "" && now.version != "", !last.zones && len(now.zones) > 0: // an agent knows its zones a moment later
		last.zones = last.zones || len(now.zones) > 0
	case since < last.every:
		was.exported = now.exported
		return was, last.every - since
	case since < toldQuiet:
		last.at, last.every = at, min(2*last.every, tellSeldom)
	default:
		last.at, last.every = at, tellEvery
	}
	last.told = now
	return now, 0
}

// forget removes a member that is gone.
func (t *told) forget(cluster string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.of, cluster)
}

// factsIn returns the facts that a MemberCluster's status has.
func factsIn(mc *clustersetv1alpha1.MemberCluster) facts {
	is := func(condition string) bool { return meta.IsStatusConditionTrue(mc.Status.Conditions, condition) }
	return facts{
		version: mc.Status.AgentVersion, zones: mc.Status.Zones, namespaces: &mc.Status.Namespaces,
		cloned: is(clustersetv1alpha1.ConditionCloned), full: is(clustersetv1alpha1.ConditionLimited),
	}
}

// same reports whether facts are the same, apart from the number of exports, which no status is written for.
func (f facts) same(o facts) bool {
	return f.version == o.version && f.cloned == o.cloned && f.full == o.full && slices.Equal(f.zones, o.zones) && ptr.Equal(f.namespaces, o.namespaces)
}
