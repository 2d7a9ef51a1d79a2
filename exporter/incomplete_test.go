package exporter

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/exporter/membership"
)

// Rule C75 of docs/spec/control-plane.md: what a heartbeat says about records that the hub may lack.
func TestHeartbeatsNameWhatTheHubMayLack(t *testing.T) {
	other := types.NamespacedName{Namespace: "shop", Name: "db"}
	p := newPass()
	is := func(what, want string) {
		t.Helper()
		if got := p.lacking(); got != want {
			t.Errorf("%s: heartbeats name %q, want %q", what, got, want)
		}
	}
	is("nothing is exported", "")
	p.lack(web, true)
	is("one was refused", "shop/web")
	p.begin([]types.NamespacedName{web, other})
	is("a pass", "shop/db,shop/web")
	p.done(web)
	p.done(other)
	is("it is done, and the refused one is still refused", "shop/web")
	p.lack(web, false)
	is("it was taken", "")

	first := newPass()
	first.begin([]types.NamespacedName{web, other})
	first.pending[web] = time.Now().Add(-passPatience)
	first.giveUp(t.Context())
	if got, want := first.lacking(), "shop/db,shop/web"; got != want {
		t.Errorf("the first pass ends without two: heartbeats name %q, want %q", got, want)
	}

	for i := range 40 {
		key := types.NamespacedName{Namespace: "n", Name: fmt.Sprintf("s%02d", i)}
		p.lack(key, true)
		if got := p.lacking(); len(got) > maxIncomplete || strings.Count(got, ",") != i {
			t.Fatalf("%d services: %q", i+1, got)
		}
	}
	p.lack(types.NamespacedName{Namespace: "n", Name: strings.Repeat("x", 63)}, true)
	is("more than an annotation has room for", api.IncompleteAll)
}

// A heartbeat that was held back for long enough goes out although the agent couldn't compare its cache with a hub that was away. It vouches
// for nothing, and neither do the next ones, until that is done.
func TestHeartbeatsVouchForNothingWhileTheCacheMayBeBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ready := make(chan struct{})
		close(ready)
		var away, behind bool
		name := &claim{
			uid: func(context.Context) (string, error) { return "", nil }, name: membership.Name{Run: "run", Interval: 10 * time.Second},
			lease: func(context.Context) (*coordinationv1.Lease, error) {
				if away {
					return nil, errors.New("no route")
				}
				return nil, nil
			},
		}
		h := &heartbeat{
			interval: 10 * time.Second, after: ready, claim: name, hurry: func() {}, relist: func() {}, catchUp: nothing,
			current: func(ctx context.Context) error {
				if behind {
					<-ctx.Done()
					return errBehind
				}
				return nil
			},
		}
		renewed, doubtful := 0, false
		h.renew = func(context.Context) error {
			if away {
				return errors.New("no route")
			}
			renewed, doubtful = renewed+1, name.doubtful
			return nil
		}
		_ = name.take(t.Context())
		beat := func(late bool) bool {
			err := h.beat(t.Context(), late)
			elapse(5 * time.Second)
			return err != nil
		}
		if failed := beat(false); failed || renewed != 1 || doubtful {
			t.Fatalf("at first: %v, %d heartbeats, doubtful %v", failed, renewed, doubtful)
		}
		away, behind = true, true
		failed := beat(false)
		away = false
		began := time.Now()
		for failed {
			failed = beat(true)
		}
		if took := time.Since(began); took < maxHeldBack*h.interval || renewed != 2 || !doubtful {
			t.Errorf("after %s: %d heartbeats, doubtful %v", took, renewed, doubtful)
		}
		beat(false)
		if renewed != 3 || !doubtful {
			t.Errorf("the next of %d heartbeats vouches for what isn't known", renewed)
		}
		behind = false
		beat(false)
		if renewed != 4 || doubtful {
			t.Errorf("the last of %d heartbeats doesn't vouch for what is known", renewed)
		}
	})
}
