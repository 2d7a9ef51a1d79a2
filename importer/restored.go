package importer

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"slices"
	"time"

	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/clusterset/clusterset/importer/desired"
)

// restoreEvery is the least time between two writes of a service's objects that only undo what somebody else has changed, such as another
// controller or an admission webhook. Each of our writes may cause one of its own, as fast as the API server allows. Rule C79 of
// docs/spec/control-plane.md.
const restoreEvery = time.Second

// restored is what a service's objects were last written as, when that was last done although they should be as they had been written before, and
// how often lately.
type restored struct {
	wanted uint64
	at     time.Time
	times  int
}

// wait returns for how long nothing is to be written: it would only undo what somebody else has changed, or repeat what failed.
func (r *restored) wait(now time.Time, out desired.Output) time.Duration {
	wait := max(0, restoreEvery-now.Sub(r.at))
	if wait > 0 && hashOf(out) != r.wanted {
		return 0
	}
	return wait
}

// note records that objects were written. If ours is false and they were so before, somebody else had changed them, and who is worth a line in the
// log.
func (r *restored) note(ctx context.Context, now time.Time, out desired.Output, ours bool) {
	wanted := hashOf(out)
	if wanted != r.wanted {
		r.wanted = wanted
		return
	}
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

// hashOf identifies what is wanted of a service, apart from its addresses, which this cluster's API server chooses.
func hashOf(out desired.Output) uint64 {
	var hash maphash.Hash
	hash.SetSeed(hashSeed)
	encoder := json.NewEncoder(&hash)
	_ = encoder.Encode(out.Resolved) // strings and numbers
	fmt.Fprint(&hash, out.Drops)
	if out.Global != nil {
		_ = encoder.Encode(&out.Global.Spec)
	}
	for _, s := range slices.Concat(out.Slices, out.Extending) {
		if data, err := s.Marshal(); err == nil {
			_, _ = hash.Write(data)
		}
	}
	return hash.Sum64()
}
