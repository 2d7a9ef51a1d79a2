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
	"github.com/clusterset/clusterset/test/script"
)

// TestHeartbeats runs the scripts of testdata/heartbeats.txtar: which of several agents works under a cluster's name, and when it renews the Lease.
// Rules C20, C26, C55 and C70 of docs/spec/control-plane.md. An agent is called by its run. A line is a command:
//
//	start RUN CLUSTER [late|behind|unreported]
//	                                an agent begins; its first pass isn't done, its records aren't written, or its reports fail and hang
//	passes, written, behind RUN     its first pass is done; its records are written after doubt, or not yet
//	signal RUN                      it hears that the hub may be back
//	stop, crash RUN                 it is told to stop; it ends without a word to the hub
//	hub away|back|hangs|loses       the hub doesn't answer; answers; answers no write; answers none but the next one
//	backup, restore NAME            the Lease is kept; it is what was kept, or "nothing"
//	thief stains|holds              somebody writes metadata into the Lease, and a holder
//	held, suspended RUN             it works under the name; it says that another one does
//	takes RUN 14s 25s               it takes the name after so long
//	renewed                         the Lease was renewed within the interval
//	clean                           its metadata is the agent's
//	renews, asks, rereads, catches-up RUN [1 3]
//	                                how often it wrote the Lease, tried to, read the hub again, or began to bring its records up to date since the last time
//	said [TEXT]                     what agents said of the name
func TestHeartbeats(t *testing.T) {
	script.Run(t, "testdata/heartbeats.txtar", func(t *testing.T) map[string]script.Command {
		h := &leaseHub{lease: &coordinationv1.Lease{}, agents: map[string]*agent{}, backups: map[string]*coordinationv1.Lease{"nothing": {}}}
		do := func(do func(*agent)) script.Command {
			return script.One(func(run string) error { do(h.agents[run]); synctest.Wait(); return nil })
		}
		is := func(what string, is func(*agent) bool) script.Command {
			return script.One(func(run string) error {
				if !is(h.agents[run]) {
					return fmt.Errorf("%s isn't %s", run, what)
				}
				return nil
			})
		}
		commands := map[string]script.Command{
			"start":     func(args ...string) error { h.start(t, args[0], args[1], strings.Join(args[2:], " ")); return nil },
			"passes":    do(func(a *agent) { close(a.passed) }),
			"written":   do(func(a *agent) { h.set(func() { a.behind = false }) }),
			"behind":    do(func(a *agent) { h.set(func() { a.behind = true }) }),
			"signal":    do(func(a *agent) { a.back <- struct{}{} }),
			"stop":      do((*agent).stop),
			"crash":     do(func(a *agent) { h.set(func() { h.away = true }); a.stop(); h.set(func() { h.away = false }) }),
			"held":      is("held", func(a *agent) bool { return a.claim.held() }),
			"suspended": is("suspended", func(a *agent) bool { return a.claim.unheard() != errNotSynced }),
			"hub": script.One(func(how string) error {
				h.set(func() { h.away, h.hangs, h.loses = how == "away", how == "hangs", how == "loses" })
				return nil
			}),
			"backup":  script.One(func(name string) error { h.backups[name] = h.now(); return nil }),
			"restore": script.One(func(name string) error { h.put(h.backups[name].DeepCopy()); return nil }),
			"thief":   script.One(h.thief),
			"clean":   script.None(func() { h.clean(t) }),
			"takes":   h.takes,
			"renewed": func(...string) error {
				if at := h.now().Spec.RenewTime; at == nil || time.Since(at.Time) > 11*time.Second {
					return fmt.Errorf("last renewed at %s", at)
				}
				return nil
			},
			"said": func(want ...string) (err error) {
				h.set(func() {
					if got := strings.Join(h.events, ", "); got != strings.Join(want, " ") {
						err = fmt.Errorf("said is %q", got)
					}
				})
				return err
			},
		}
		for _, what := range []string{"renews", "asks", "rereads", "catches-up"} {
			commands[what] = func(args ...string) error { return h.counted(what, args[0], args[1:]) }
		}
		return commands
	})
}

// leaseHub is a hub with a single Lease, and the agents that use it.
type leaseHub struct {
	mu                 sync.Mutex
	lease              *coordinationv1.Lease // never nil; without a resourceVersion there is none
	version            int
	away, hangs, loses bool
	events             []string // "run reason"
	agents             map[string]*agent
	backups            map[string]*coordinationv1.Lease
}

var errAway = errors.New("the hub is away")

// leaseClient is what an agent reads and writes the Lease with.
type leaseClient struct {
	client.Client
	*leaseHub
	of *agent
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
	hangs := false
	c.set(func() { hangs = c.hangs })
	c.note(c.of, "asks")
	if hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.away:
		return errAway
	case lease.ResourceVersion != c.lease.ResourceVersion:
		return apierrors.NewConflict(coordinationv1.Resource("leases"), lease.Name, errors.New("it has changed"))
	}
	c.version++
	lease.ResourceVersion = strconv.Itoa(c.version)
	c.lease = lease.DeepCopy()
	c.of.count["renews"]++
	if c.loses {
		c.loses = false
		return errAway
	}
	return nil
}

// set changes the hub.
func (h *leaseHub) set(do func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	do()
}

func (h *leaseHub) note(a *agent, what string) { h.set(func() { a.count[what]++ }) }

// put replaces the Lease. The hub's versions go on.
func (h *leaseHub) put(lease *coordinationv1.Lease) {
	h.set(func() {
		if h.lease = lease; lease.ResourceVersion != "" {
			h.version++
			lease.ResourceVersion = strconv.Itoa(h.version)
		}
	})
}

func (h *leaseHub) now() (lease *coordinationv1.Lease) {
	h.set(func() { lease = h.lease.DeepCopy() })
	return lease
}

func (h *leaseHub) thief(what string) error {
	lease := h.now()
	lease.Labels, lease.Annotations = map[string]string{"a": "b"}, map[string]string{"a": "b"}
	lease.Finalizers, lease.ManagedFields = []string{"a/b"}, []metav1.ManagedFieldsEntry{{Manager: "thief"}}
	if what == "holds" {
		lease.Spec.HolderIdentity = &what
	}
	h.put(lease)
	return nil
}

func (h *leaseHub) clean(t *testing.T) {
	is := h.now()
	if len(is.Annotations)+len(is.Finalizers) > 0 || len(is.Labels) != 2 || is.Labels[api.LabelCluster] != "beijing" || len(is.ManagedFields) != 1 || is.ManagedFields[0].Manager != api.FieldManagerExporter {
		t.Errorf("the Lease is %+v", is.ObjectMeta)
	}
}

// takes waits until an agent holds the name, and compares how long that takes with two durations.
func (h *leaseHub) takes(args ...string) error {
	least, err := time.ParseDuration(args[1])
	most, err2 := time.ParseDuration(args[2])
	began := time.Now()
	for !h.agents[args[0]].claim.held() && time.Since(began) < time.Hour {
		elapse(time.Second)
	}
	if took := time.Since(began); took < least || took > most {
		return fmt.Errorf("it holds the name after %s: %w", took, errors.Join(err, err2))
	}
	return nil
}

// counted compares how often an agent did something with the least and the most, if they are given.
func (h *leaseHub) counted(what, run string, between []string) (err error) {
	h.set(func() {
		count := h.agents[run].count
		n := count[what]
		if count[what] = 0; len(between) == 0 {
			return
		}
		var least, most int
		if _, err = fmt.Sscan(strings.Join(between, " "), &least, &most); err == nil && (n < least || n > most) {
			err = fmt.Errorf("%d times", n)
		}
	})
	return err
}

// agent is one run of an agent.
type agent struct {
	*heartbeat
	count        map[string]int
	behind       bool
	passed, back chan struct{}
	end          context.CancelFunc
	ended        chan struct{}
}

// start runs an agent of a cluster until it is stopped or the test ends.
func (h *leaseHub) start(t *testing.T, run, cluster, how string) {
	t.Helper()
	a := &agent{count: map[string]int{}, behind: how == "behind", passed: make(chan struct{}), back: make(chan struct{}, 1), ended: make(chan struct{})}
	if how != "late" {
		close(a.passed)
	}
	on, reports := &leaseClient{leaseHub: h, of: a}, 0
	a.heartbeat = &heartbeat{
		interval: 10 * time.Second, after: a.passed, back: a.back, relist: func() { h.note(a, "rereads") },
		claim: &claim{
			cluster: "beijing", run: run, interval: 10 * time.Second, live: on, hub: on,
			uid: func(context.Context) string { return cluster },
			say: func(_ context.Context, why *suspended) {
				h.set(func() { h.events = append(h.events, run+" "+why.reason) })
			},
		},
		upToDate: func(ctx context.Context) error { // gives up after a minute
			behind := false
			h.set(func() { a.count["catches-up"]++; behind = a.behind })
			if !behind {
				return nil
			}
			<-ctx.Done()
			return errBehind
		},
		report: func(ctx context.Context) error {
			if how != "unreported" {
				return nil
			}
			if reports++; reports%2 == 0 {
				<-ctx.Done()
			}
			return errors.New("no")
		},
	}
	h.agents[run] = a
	ctx, cancel := context.WithCancel(t.Context())
	a.end = cancel
	go func() {
		defer close(a.ended)
		if err := a.run(ctx); err != nil {
			t.Errorf("%s: %v", run, err)
		}
	}()
	t.Cleanup(a.stop)
	synctest.Wait()
}

// stop tells the agent to stop, and waits for it.
func (a *agent) stop() { a.end(); <-a.ended }

// elapse lets time pass in a synctest bubble.
func elapse(d time.Duration) { <-time.After(d) }
