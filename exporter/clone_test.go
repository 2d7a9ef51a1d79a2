package exporter

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/exporter/membership"
)

// leaseHub is a hub with a single Lease, for agents in a synctest bubble.
type leaseHub struct {
	mu     sync.Mutex
	lease  *coordinationv1.Lease
	renews map[string]int // number of renewals, by run
	events []string       // "run reason"
}

func (h *leaseHub) read(context.Context) (*coordinationv1.Lease, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lease.DeepCopy(), nil
}

func (h *leaseHub) write(do func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	do()
}

// counts returns how often a run has renewed the Lease.
func (h *leaseHub) counts(run string) (n int) {
	h.write(func() { n = h.renews[run] })
	return n
}

// told returns how often an event was reported, given as "run reason".
func (h *leaseHub) told(event string) (n int) {
	h.write(func() {
		for _, e := range h.events {
			if e == event {
				n++
			}
		}
	})
	return n
}

// said returns how many events were reported in total.
func (h *leaseHub) said() (n int) {
	h.write(func() { n = len(h.events) })
	return n
}

// agent is one run of an agent.
type agent struct {
	*heartbeat
	relists atomic.Int32
	stop    func()
}

// start starts an agent of the cluster with a clock that is off by skew.
func (h *leaseHub) start(t *testing.T, run string, skew time.Duration) *agent {
	t.Helper()
	c := &claim{
		uid: func(context.Context) (string, error) { return "cluster", nil }, lease: h.read,
		name: membership.Name{Run: run, Started: time.Now().Add(skew), Interval: 10 * time.Second},
		tell: func(_ context.Context, _, reason, _ string) {
			h.write(func() { h.events = append(h.events, run+" "+reason) })
		},
		report: func(context.Context) { h.write(func() { h.events = append(h.events, run+" reports") }) },
		yields: func(_ context.Context, at string) error {
			h.write(func() {
				if h.lease.Annotations[api.AnnotationYields] = strings.Trim(at, `"`); at == "null" {
					delete(h.lease.Annotations, api.AnnotationYields)
				}
			})
			return nil
		},
	}
	ready := make(chan struct{})
	a := &agent{}
	a.heartbeat = &heartbeat{
		interval: c.name.Interval, after: ready, claim: c, upToDate: nothing,
		relist: func() { a.relists.Add(1) },
		renew: func(context.Context) error {
			h.write(func() {
				at := c.renewing(metav1.NewMicroTime(time.Now().Add(skew)))
				lease := leaseOf("cluster", at.Time)
				lease.Annotations[api.AnnotationRun] = run
				lease.Annotations[api.AnnotationStarted] = c.name.Started.Format(time.RFC3339Nano)
				if h.lease != nil && h.lease.Annotations[api.AnnotationYields] != "" {
					lease.Annotations[api.AnnotationYields] = h.lease.Annotations[api.AnnotationYields]
				}
				h.lease = lease
				h.renews[run]++
			})
			c.name.Renewed()
			return nil
		},
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = c.take(ctx)
		close(ready) // the first pass takes no time
		if err := a.run(ctx); err != nil {
			t.Errorf("%s: %v", run, err)
		}
	}()
	a.stop = func() { cancel(); <-done }
	t.Cleanup(a.stop)
	return a
}

func inClonesHub(t *testing.T, test func(t *testing.T, h *leaseHub)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, &leaseHub{renews: map[string]int{}}) })
}

// Of two agents with the same identity, the one that started later stops, and both report it. If clocks are wrong, the earlier one may stop
// instead, but exactly one continues.
// Rule C26 of docs/spec/control-plane.md.
func TestOfTwoClonesTheLaterYields(t *testing.T) {
	for _, c := range []struct {
		skew       time.Duration // of the clone's clock
		goes, ends string
	}{
		{0, "a", "b"}, {20 * time.Minute, "a", "b"}, {-20 * time.Minute, "a", "b"}, {-2 * time.Hour, "b", "a"},
	} {
		t.Run(c.skew.String(), func(t *testing.T) {
			inClonesHub(t, func(t *testing.T, h *leaseHub) {
				agents := map[string]*agent{"a": h.start(t, "a", 0)}
				elapse(time.Hour + 3*time.Second)
				agents["b"] = h.start(t, "b", c.skew)
				elapse(2*time.Minute + time.Second/2) // between two ticks of either
				before := h.counts(c.ends)
				if before > 370 || h.counts("b") > 0 && c.ends == "b" && before > membership.Renewals+1 {
					t.Errorf("%s renewed the Lease %d times", c.ends, before)
				}
				was := h.counts(c.goes)
				elapse(time.Hour)
				if n, m := h.counts(c.ends)-before, h.counts(c.goes)-was; n > 0 || m != 360 {
					t.Errorf("in an hour the one that yields renewed %d times, the other %d times", n, m)
				}
				if agents[c.ends].claim.held() || !agents[c.goes].claim.held() {
					t.Error("it isn't the later one that exports nothing")
				}
				if h.told(c.ends+" reports") != 1 || h.told(c.goes+" reports") != 0 || !errors.Is(agents[c.ends].claim.unheard(), suspendedByClone) {
					t.Errorf("ServiceExports of the one that ends say so %d times, those of the other %d times", h.told(c.ends+" reports"), h.told(c.goes+" reports"))
				}
				if h.told(c.ends+" ClusterCloned") != 1 || h.told(c.goes+" ClusterCloned") != 1 || h.told(c.goes+" CloneGone") != 0 {
					t.Errorf("%d Events, not one on each side", h.said())
				}
				if n := agents[c.goes].relists.Load(); n > 2 {
					t.Errorf("the one that goes on listed everything again %d times", n)
				}
				// The agent that yielded is stopped, as when its cluster joins under a name of its own.
				agents[c.ends].stop()
				elapse(15 * time.Minute)
				if lease, _ := h.read(t.Context()); h.told(c.goes+" CloneGone") != 1 || lease.Annotations[api.AnnotationYields] != "" {
					t.Errorf("after it has gone: Lease %v", lease.Annotations)
				}
			})
		})
	}
}

// The earlier agent keeps the name after a restart, although it then started later than the clone. The clone takes the name over only after
// the other has been gone for long, and it yields from the start if it is itself restarted.
func TestRestartsBesideAClone(t *testing.T) {
	inClonesHub(t, func(t *testing.T, h *leaseHub) {
		a := h.start(t, "a", 0)
		elapse(time.Minute)
		b := h.start(t, "b", 0)
		elapse(5 * time.Minute)
		a.stop()
		elapse(7 * time.Second)
		a2, began := h.start(t, "a2", 0), time.Now()
		for !a2.claim.held() {
			elapse(time.Second)
		}
		if took := time.Since(began); took > 31*time.Second {
			t.Errorf("the earlier one works again %s after its restart", took)
		}
		b.stop()
		b2 := h.start(t, "b2", 0)
		elapse(20 * time.Minute)
		if n := h.counts("b2"); n != 0 || b2.claim.held() || !a2.claim.held() || h.told("b2 ClusterCloned") != 1 {
			t.Errorf("a clone that is restarted: %d renewals, %d Events", n, h.said())
		}
		a2.stop()
		elapse((membership.YieldFor-2)*10*time.Second - time.Second)
		if b2.claim.held() {
			t.Error("the clone takes over too early")
		}
		elapse(time.Minute)
		if lease, _ := h.read(t.Context()); !b2.claim.held() || h.counts("b2") == 0 || lease.Annotations[api.AnnotationYields] != "" {
			t.Errorf("the clone doesn't take over: Lease %v", lease.Annotations)
		}
		elapse(time.Hour)
		if !b2.claim.held() {
			t.Error("the clone doesn't keep the name of one that is gone")
		}
	})
}

// A second agent that shows up only for a moment is no clone.
func TestNoClones(t *testing.T) {
	for name, happens := range map[string]func(t *testing.T, h *leaseHub) *agent{
		"restarts in quick succession": func(t *testing.T, h *leaseHub) *agent {
			for i := range 20 {
				a := h.start(t, fmt.Sprint("run", i), time.Duration(-i)*time.Minute) // the clock is set back each time
				elapse(time.Duration(1+i) * time.Second)
				a.stop()
			}
			return h.start(t, "last", 0)
		},
		"a rollout in which the old agent ends after the new one has begun": func(t *testing.T, h *leaseHub) *agent {
			old := h.start(t, "old", 0)
			elapse(time.Minute + 5*time.Second)
			fresh := h.start(t, "new", 0)
			elapse(15 * time.Second)
			old.stop()
			return fresh
		},
		"a change of leaders, and requests of the old one that arrive late": func(t *testing.T, h *leaseHub) *agent {
			old := h.start(t, "old", 0)
			elapse(time.Minute)
			old.stop()
			fresh := h.start(t, "new", 0)
			elapse(25 * time.Second)
			for range 2 {
				_ = old.renew(t.Context())
				elapse(20 * time.Second)
			}
			return fresh
		},
		"a hub that is set back, again and again": func(t *testing.T, h *leaseHub) *agent {
			old := h.start(t, "old", 0)
			elapse(time.Minute)
			backup, _ := h.read(t.Context())
			elapse(time.Minute)
			old.stop()
			fresh := h.start(t, "new", 0)
			elapse(time.Second / 2) // between two ticks, because a heartbeat that is under way overwrites what it has just read
			for range 10 {
				elapse(time.Minute)
				h.write(func() { h.lease = backup.DeepCopy() })
			}
			elapse(20 * time.Second)
			if n := fresh.relists.Load(); n != 10 {
				t.Errorf("it noticed %d times that the hub was set back", n)
			}
			return fresh
		},
	} {
		t.Run(name, func(t *testing.T) {
			inClonesHub(t, func(t *testing.T, h *leaseHub) {
				last := happens(t, h)
				elapse(time.Minute + time.Second/2) // between two ticks
				before := h.counts(last.claim.name.Run)
				elapse(10 * time.Minute)
				if n := h.counts(last.claim.name.Run) - before; n != 60 || !last.claim.held() || h.said() > 0 {
					t.Errorf("%d renewals in ten minutes, %d Events", n, h.said())
				}
			})
		})
	}
}

// A clone that yielded takes over once the other has been silent, and goes on: what it saw of the other before is forgotten.
// Rule C26 of docs/spec/control-plane.md.
func TestACloneThatYieldedGoesOnOnceTheOtherIsGone(t *testing.T) {
	inClonesHub(t, func(t *testing.T, h *leaseHub) {
		a := h.start(t, "a", 0)
		elapse(time.Minute)
		b := h.start(t, "b", 0)
		elapse(5 * time.Minute)
		if b.claim.held() || h.counts("b") == 0 {
			t.Fatalf("it doesn't yield after %d renewals", h.counts("b"))
		}
		a.stop()
		elapse(membership.YieldFor*10*time.Second + 11*time.Second)
		before := h.counts("b")
		elapse(time.Hour)
		if n := h.counts("b") - before; !b.claim.held() || n != 360 || h.told("b ClusterCloned") != 1 {
			t.Errorf("in an hour it renews %d times, and reports %d times that it has to yield", n, h.told("b ClusterCloned"))
		}
	})
}
