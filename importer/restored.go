package importer

import (
	"context"
	"time"

	logf "sigs.k8s.io/controller-runtime/pkg/log"
)

// restoreEvery is the least time between two writes of a service's objects that only undo what somebody else has changed, such as another
// controller or an admission webhook. Each of our writes may cause one of its own, as fast as the API server allows. Rule C79 of
// docs/spec/control-plane.md.
const restoreEvery = time.Second

// restored is when a service's objects were last written although all that they depend on was the same, and how often lately.
type restored struct {
	at    time.Time
	times int
}

// restores reports whether a write would only undo what somebody else has changed, repeat one that failed, or complete a change that takes two
// steps.
func (m *memory) restores() bool { return !m.Changed() && !m.globalWaits }

// wait returns for how long nothing is to be restored.
func (r *restored) wait(now time.Time) time.Duration { return max(0, restoreEvery-now.Sub(r.at)) }

// note records that objects were written. If ours is false, somebody else had changed them, and who is worth a line in the log.
func (r *restored) note(ctx context.Context, now time.Time, ours bool) {
	if now.Sub(r.at) > time.Minute {
		r.times = 0
	}
	r.at = now
	if ours {
		return
	}
	r.times++
	if r.times == 3 {
		logf.FromContext(ctx).Info("Somebody else keeps changing what the importer writes, which is restored once a second; the objects' managedFields may say who")
	}
}
