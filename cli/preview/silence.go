package preview

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/hub/liveness"
)

// fall marks clusters as down, all at the same time. Their phase is decided by the hub's own code: the clock advances with heartbeats
// from all other clusters that are Ready.
func (a *after) fall(clusters []string) error {
	for _, name := range clusters {
		if _, err := a.member(name); err != nil {
			return err
		}
		a.down[name] = true
		a.touch(name)
	}
	thresholds := liveness.DefaultThresholds
	l, now := liveness.New(thresholds), time.Time{}.Add(thresholds.Forget) // any time but the zero time
	for name, m := range a.members {
		l.Know(name, m.Status.Phase, now, now)
	}
	var decisions map[string]liveness.Decision
	const ticks = 8 // in the time after which a cluster is Suspect
	for tick := range ticks * int(2+thresholds.Expire/thresholds.Suspect) {
		for name, m := range a.members {
			if m.Status.Phase == clustersetv1alpha1.MemberReady && !a.down[name] {
				l.Observe(name, strconv.Itoa(tick), now)
			}
		}
		decisions = l.Decide(now)
		now = now.Add(thresholds.Suspect / ticks)
	}
	var kept []string
	for _, name := range clusters {
		m := a.members[name]
		if phase := decisions[name].Phase; phase != clustersetv1alpha1.MemberExpired {
			kept = append(kept, fmt.Sprintf("%s stays %s", name, orUnknown(phase)))
		}
		m.Status.Phase = decisions[name].Phase
	}
	if len(kept) > 0 {
		a.notes = append(a.notes, "The hub expires no cluster that never sent a heartbeat, and none while most are silent, because it may be cut off: "+
			strings.Join(kept, ", ")+", and is answered")
	}
	return nil
}

func orUnknown(phase clustersetv1alpha1.MemberClusterPhase) string {
	if phase == "" {
		return "without a phase"
	}
	return string(phase)
}
