package exporter

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
)

// leaseHub is a hub with a single Lease, for agents in a synctest bubble.
type leaseHub struct {
	mu      sync.Mutex
	lease   *coordinationv1.Lease // never nil; without a resourceVersion there is none
	version int
	away    bool
	writes  map[string]int // by holder
	events  []string       // "run reason"
}

func newLeaseHub() *leaseHub {
	return &leaseHub{lease: &coordinationv1.Lease{}, writes: map[string]int{}}
}

var errAway = errors.New("the hub is away")

// leaseClient is a client of the hub. It is what an agent reads and writes the Lease with.
type leaseClient struct {
	client.Client
	*leaseHub
	put func(context.Context, *coordinationv1.Lease) error // in place of Update
}

func (c *leaseClient) Get(_ context.Context, _ client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.away {
		return errAway
	}
	c.lease.DeepCopyInto(o.(*coordinationv1.Lease)) //nolint:forcetypeassert // nothing else is read
	return nil
}

func (c *leaseClient) Update(ctx context.Context, o client.Object, _ ...client.UpdateOption) error {
	lease := o.(*coordinationv1.Lease) //nolint:forcetypeassert // nothing else is written
	put := func(_ context.Context, lease *coordinationv1.Lease) error { return c.write(lease) }
	c.set(func() {
		if c.put != nil {
			put = c.put
		}
	})
	return put(ctx, lease)
}

func (h *leaseHub) write(lease *coordinationv1.Lease) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.away:
		return errAway
	case lease.ResourceVersion != h.lease.ResourceVersion:
		return apierrors.NewConflict(coordinationv1.Resource("leases"), lease.Name, errors.New("it has changed"))
	}
	h.version++
	lease.ResourceVersion = strconv.Itoa(h.version)
	h.lease = lease.DeepCopy()
	h.writes[*lease.Spec.HolderIdentity]++
	return nil
}

// set changes the hub.
func (h *leaseHub) set(do func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	do()
}

// restore sets the Lease back to an earlier state. The hub's versions go on from there.
func (h *leaseHub) restore(to *coordinationv1.Lease) {
	h.set(func() {
		h.lease = to.DeepCopy()
		if h.lease.ResourceVersion != "" {
			h.version++
			h.lease.ResourceVersion = strconv.Itoa(h.version)
		}
	})
}

func (h *leaseHub) now() (lease *coordinationv1.Lease) {
	h.set(func() { lease = h.lease.DeepCopy() })
	return lease
}

// renewals returns how often a run wrote the Lease, taking the name included.
func (h *leaseHub) renewals(run string) (n int) {
	h.set(func() {
		for holder, writes := range h.writes {
			if strings.HasSuffix(holder, "/"+run) {
				n += writes
			}
		}
	})
	return n
}

func (h *leaseHub) said() (all string) {
	h.set(func() { all = strings.Join(h.events, ", ") })
	return all
}

// agent is one run of an agent.
type agent struct {
	*heartbeat
	relists, catchUps int
	on                *leaseClient
	end               context.CancelFunc
	ended             chan struct{}
}

// prepare returns an agent of a cluster. Its first pass takes no time.
func (h *leaseHub) prepare(cluster, run string) *agent {
	on := &leaseClient{leaseHub: h}
	c := &claim{
		cluster: "beijing", run: run, interval: 10 * time.Second, live: on, hub: on,
		uid: func(context.Context) string { return cluster },
		say: func(_ context.Context, why *suspended) {
			h.set(func() { h.events = append(h.events, run+" "+why.reason) })
		},
	}
	ready := make(chan struct{})
	close(ready)
	a := &agent{ended: make(chan struct{}), on: on}
	a.heartbeat = &heartbeat{
		interval: c.interval, after: ready, claim: c, report: nothing, relist: func() { h.set(func() { a.relists++ }) },
		upToDate: func(context.Context) error { h.set(func() { a.catchUps++ }); return nil },
	}
	return a
}

// begin runs an agent until it is stopped or the test ends.
func (h *leaseHub) begin(t *testing.T, a *agent) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	a.end = cancel
	go func() {
		defer close(a.ended)
		if err := a.run(ctx); err != nil {
			t.Errorf("%s: %v", a.claim.run, err)
		}
	}()
	t.Cleanup(a.stop)
}

func (h *leaseHub) start(t *testing.T, cluster, run string) *agent {
	t.Helper()
	a := h.prepare(cluster, run)
	h.begin(t, a)
	return a
}

// stop tells the agent to stop, and waits for it.
func (a *agent) stop() { a.end(); <-a.ended }

// crash ends the agent without a word to the hub.
func (h *leaseHub) crash(a *agent) {
	h.set(func() { h.away = true })
	a.stop()
	h.set(func() { h.away = false })
}

// heldAfter returns after how many seconds an agent holds the name, up to an hour.
func (a *agent) heldAfter() time.Duration {
	began := time.Now()
	for !a.claim.held() && time.Since(began) < time.Hour {
		elapse(time.Second)
	}
	return time.Since(began)
}

// Rule C26 of docs/spec/control-plane.md: how long the next agent waits.
func TestSuccessor(t *testing.T) {
	for _, c := range []struct {
		name    string
		happens func(t *testing.T, h *leaseHub, first *agent) *agent
		after   time.Duration
		said    string
	}{
		{"handed over", func(t *testing.T, h *leaseHub, first *agent) *agent {
			first.stop()
			return h.start(t, "cluster", "next")
		}, 0, ""},
		{"after a crash", func(t *testing.T, h *leaseHub, first *agent) *agent {
			h.crash(first)
			return h.start(t, "cluster", "next")
		}, 15 * time.Second, ""},
		{"of another cluster", func(t *testing.T, h *leaseHub, first *agent) *agent {
			h.crash(first)
			return h.start(t, "another", "next")
		}, 5 * time.Minute, "next NameTaken"},
		{"a clone, which finds it alive", func(t *testing.T, h *leaseHub, first *agent) *agent {
			next := h.start(t, "cluster", "next")
			elapse(time.Minute + 2*time.Second) // between two ticks of the next
			h.crash(first)
			return next
		}, 5*time.Minute - 2*time.Second, "next NameTaken"},
		{"a clone, and the first hands over", func(t *testing.T, h *leaseHub, first *agent) *agent {
			next := h.start(t, "cluster", "next")
			elapse(time.Minute + 2*time.Second)
			first.stop()
			return next
		}, 3 * time.Second, "next NameTaken"},
		{"the hub is away for ten minutes", func(t *testing.T, h *leaseHub, first *agent) *agent {
			next := h.start(t, "another", "next")
			elapse(4 * time.Minute)
			h.set(func() { h.away = true })
			elapse(10 * time.Minute)
			h.crash(first) // and it is back
			return next
		}, 5 * time.Minute, "next NameTaken"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newLeaseHub()
				first := h.start(t, "cluster", "first")
				elapse(time.Minute + time.Second/2) // between two ticks
				if !first.claim.held() {
					t.Fatal("the first agent doesn't hold the name")
				}
				next := c.happens(t, h, first)
				synctest.Wait()
				if next.claim.held() != (c.after == 0) || c.after > 0 && h.renewals("next") != 0 {
					t.Errorf("at once it holds the name: %v, after %d writes", next.claim.held(), h.renewals("next"))
				}
				if after := next.heldAfter(); after < c.after-time.Second || after > c.after+10*time.Second {
					t.Errorf("it holds the name after %s, want %s", after, c.after)
				}
				if said := h.said(); said != c.said {
					t.Errorf("it says %q, want %q", said, c.said)
				}
				before := h.renewals("next")
				elapse(10 * time.Minute)
				if n := h.renewals("next") - before; n < 59 || n > 61 || next.claim.unheard() != errNotSynced {
					t.Errorf("%d renewals in ten minutes, then %v", n, next.claim.unheard())
				}
			})
		})
	}
}

// Of two clones, such as a cluster and what was restored from its etcd of last night, one exports, whichever was there first, and the other says that it
// doesn't, however often both are restarted and the hub is away.
func TestOfTwoClonesOneWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newLeaseHub()
		a := h.start(t, "cluster", "a0")
		elapse(time.Minute)
		b := h.start(t, "cluster", "b0")
		for i := 1; i < 5; i++ {
			elapse(20*time.Minute + time.Second)
			if !a.claim.held() || b.claim.held() || h.renewals(b.claim.run) != 0 || b.claim.unheard().Error() == errNotSynced.Error() {
				t.Fatalf("restart %d: the original holds the name: %v, its clone: %v", i, a.claim.held(), b.claim.held())
			}
			h.set(func() { h.away = true })
			elapse(10 * time.Minute)
			h.set(func() { h.away = false })
			elapse(time.Minute)
			if i%2 == 0 {
				h.crash(a)
				a = h.start(t, "cluster", fmt.Sprint("a", i))
			} else {
				b.stop()
				b = h.start(t, "cluster", fmt.Sprint("b", i))
			}
		}
	})
}

// A hub that was restored from a backup is noticed each time, and nothing is renewed before the records are up to date. The same after a renewal
// that failed; one whose answer got lost isn't taken for a restore. Rules C20 and C26 of docs/spec/control-plane.md.
func TestRestoredHub(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newLeaseHub()
		old := h.start(t, "cluster", "old")
		elapse(time.Minute)
		before := h.now()
		old.stop()
		a := h.start(t, "cluster", "new")
		elapse(time.Minute + time.Second/2) // between two ticks
		backup := h.now()
		expect := func(what string, relists, catchUps int) {
			t.Helper()
			elapse(time.Minute)
			h.set(func() {
				if a.relists != relists || a.catchUps != catchUps || !a.claim.held() {
					t.Errorf("%s: it read everything again %d times, and brought it up to date %d times; want %d and %d", what, a.relists, a.catchUps, relists, catchUps)
				}
			})
			if at := h.now().Spec.RenewTime; time.Since(at.Time) > 11*time.Second {
				t.Errorf("%s: last renewed at %s", what, at)
			}
		}
		expect("nothing happens", 0, 0)
		h.restore(backup)
		expect("restored to a minute ago", 1, 1)
		h.restore(backup)
		expect("once more", 2, 2)
		h.restore(&coordinationv1.Lease{})
		expect("emptied", 3, 3)
		h.set(func() { h.away = true })
		elapse(15 * time.Second)
		h.set(func() { h.away = false })
		expect("away for a moment", 3, 4)
		h.set(func() {
			a.on.put = func(_ context.Context, lease *coordinationv1.Lease) error {
				h.set(func() { a.on.put = nil })
				return errors.Join(h.write(lease), errAway)
			}
		})
		expect("an answer got lost", 3, 5)
		h.restore(before) // our predecessor's: we wait for it as after a crash
		expect("restored to before it was started", 3, 6)
		if said := h.said(); said != "" {
			t.Errorf("it says %q", said)
		}
	})
}

// What somebody else, such as a thief of the token, left in the Lease goes with the next renewal. The thief's holder counts as another agent.
func TestLeaseIsOursAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newLeaseHub()
		a := h.start(t, "cluster", "run")
		elapse(time.Minute + time.Second/2)
		stained := h.now()
		stained.Labels, stained.Annotations = map[string]string{"a": "b"}, map[string]string{"a": "b"}
		stained.Finalizers, stained.ManagedFields = []string{"a/b"}, []metav1.ManagedFieldsEntry{{Manager: "thief"}}
		h.restore(stained)
		elapse(10 * time.Second)
		is := h.now()
		if len(is.Annotations)+len(is.Finalizers) > 0 || len(is.Labels) != 2 || is.Labels[api.LabelCluster] != "beijing" || len(is.ManagedFields) != 1 || is.ManagedFields[0].Manager != api.FieldManagerExporter {
			t.Errorf("the Lease is %+v", is.ObjectMeta)
		}
		holder := "thief"
		stained.Spec.HolderIdentity = &holder
		h.restore(stained)
		elapse(10 * time.Second)
		if a.claim.held() || h.said() != "run NameTaken" {
			t.Errorf("with another holder it goes on; it says %q", h.said())
		}
	})
}
