package hub

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

// paceEvery is how often, at most, what a member says about itself changes its MemberCluster, which is copied to all members (rule C29 of
// docs/spec/control-plane.md). Phases don't wait.
const paceEvery = time.Minute

// paced has, for each member, what was last taken from its report, and when.
type paced struct{ sync.Map }

type taken struct {
	facts
	at time.Time
}

// pace returns the facts for a member's status: as they are, or what the status says already and when to look again.
func (p *paced) pace(mc *clustersetv1alpha1.MemberCluster, now facts, at time.Time) (facts, time.Duration) {
	was := facts{
		version: mc.Status.AgentVersion, exported: now.exported, zones: mc.Status.Zones, namespaces: &mc.Status.Namespaces,
		full: meta.IsStatusConditionTrue(mc.Status.Conditions, clustersetv1alpha1.ConditionLimited),
	}
	now = now.or(was)
	v, _ := p.Load(mc.Name)
	last, _ := v.(taken)
	if now.same(was) || now.same(last.facts) { // the second if the write failed
		return now, 0
	}
	if wait := paceEvery - at.Sub(last.at); wait > 0 {
		return was, wait
	}
	p.Store(mc.Name, taken{now, at})
	return now, 0
}

// or returns the facts with others in place of those that aren't known.
func (f facts) or(o facts) facts {
	if f.version == "" {
		f.version = o.version
	}
	if f.zones == nil {
		f.zones = o.zones
	}
	if f.namespaces == nil {
		f.namespaces = o.namespaces
	}
	return f
}

// same reports whether facts are the same, apart from the number of exports, which no status is written for.
func (f facts) same(o facts) bool {
	return f.version == o.version && f.full == o.full && slices.Equal(f.zones, o.zones) && ptr.Equal(f.namespaces, o.namespaces)
}
