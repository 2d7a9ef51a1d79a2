package clusterset

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/clusterset/clusterset/internal/index"
)

// awayFeed is a feed whose API server can't be reached.
type awayFeed struct{}

func (awayFeed) name() string                       { return "away" }
func (awayFeed) run(ctx context.Context, _ *source) { <-ctx.Done() }

// waits starts a source and returns how long its server blocks wait for it, if another plugin has waited for the given time
// before. restored tells, for each block, whether it answers from a snapshot file.
func waits(t *testing.T, otherPlugin time.Duration, timeouts []time.Duration, restored ...bool) (took time.Duration) {
	synctest.Test(t, func(*testing.T) {
		s := newSource(awayFeed{})
		defer s.endMetrics()
		defer s.close()
		began := time.Now()
		s.start()
		time.Sleep(otherPlugin) //nolint:forbidigo // on the clock of synctest
		for i, timeout := range timeouts {
			c := &ClusterSet{source: s, index: index.New(index.Options{})}
			if i < len(restored) && restored[i] {
				c.index.Restore(nil, time.Unix(1, 0))
			}
			c.await(timeout)
		}
		took = time.Since(began)
	})
	return took
}

func TestWaitsForTheFirstSyncDoNotAddUp(t *testing.T) {
	second := func(n int) time.Duration { return time.Duration(n) * time.Second }
	for _, c := range []struct {
		name        string
		otherPlugin time.Duration
		timeouts    []time.Duration
		restored    []bool
		want        time.Duration
	}{
		{"one block", 0, []time.Duration{second(5)}, nil, second(5)},
		{"three blocks", 0, []time.Duration{second(1), second(1), second(1)}, nil, second(1)},
		{"blocks that differ", 0, []time.Duration{second(1), second(3), second(2)}, nil, second(3)},
		{"behind a longer wait of another plugin", second(6), []time.Duration{second(5), second(5)}, nil, second(6)},
		{"behind a shorter one", second(2), []time.Duration{second(5)}, nil, second(5)},
		{"with a snapshot file", 0, []time.Duration{second(5)}, []bool{true}, 0},
		{"with one that another block doesn't answer from", 0, []time.Duration{second(5), second(2)}, []bool{true, false}, second(2)},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := waits(t, c.otherPlugin, c.timeouts, c.restored...); got != c.want {
				t.Errorf("listened after %v, want %v", got, c.want)
			}
		})
	}
	t.Run("with a snapshot file, in a reload", func(t *testing.T) {
		replaced := newSource(awayFeed{})
		replaced.corefile = &sources{byKey: map[string]*source{"": replaced}}
		replaced.indexes = []*index.Index{index.New(index.Options{})}
		replaced.indexes[0].Publish()
		replaced.start()
		started.mu.Lock()
		started.all = map[*sources]bool{replaced.corefile: true}
		started.mu.Unlock()
		t.Cleanup(replaced.corefile.close)
		if got := waits(t, 0, []time.Duration{second(5)}, true); got != second(5) {
			t.Errorf("took over after %v, want %v: the server that is replaced knows better", got, second(5))
		}
	})
}
