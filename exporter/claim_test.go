package exporter

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterset/clusterset/api"
)

func leaseOf(uid string, renewed time.Time) *coordinationv1.Lease {
	at := metav1.NewMicroTime(renewed)
	lease := &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{RenewTime: &at}}
	if uid != "" {
		lease.Annotations = map[string]string{api.AnnotationClusterUID: uid}
	}
	return lease
}

func TestClaim(t *testing.T) {
	start := epoch.Time
	for _, c := range []struct {
		name  string
		uid   string
		lease func(elapsed time.Duration) *coordinationv1.Lease
		after time.Duration // -1: never
	}{
		{"no Lease yet", "us", func(time.Duration) *coordinationv1.Lease { return nil }, 0},
		{"our own of before", "us", func(time.Duration) *coordinationv1.Lease { return leaseOf("us", start) }, 0},
		{"one that says no cluster", "us", func(time.Duration) *coordinationv1.Lease { return leaseOf("", start) }, 0},
		{"we don't know who we are", "", func(time.Duration) *coordinationv1.Lease { return leaseOf("them", start) }, 0},
		{"another cluster's, silent", "us", func(time.Duration) *coordinationv1.Lease { return leaseOf("them", start) }, 40 * time.Second},
		{"another cluster's, alive", "us", func(d time.Duration) *coordinationv1.Lease { return leaseOf("them", start.Add(d)) }, -1},
		{"another cluster's, until it stops", "us", func(d time.Duration) *coordinationv1.Lease {
			return leaseOf("them", start.Add(min(d, time.Minute)))
		}, 100 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				began := time.Now()
				name := &claim{
					uid:      func(context.Context) (string, error) { return c.uid, nil },
					lease:    func(context.Context) (*coordinationv1.Lease, error) { return c.lease(time.Since(began)), nil },
					interval: 10 * time.Second,
					tell:     func(context.Context, string, string, string) {}, report: func(context.Context) {},
				}
				if err := name.take(ctx); err != nil {
					t.Fatal(err)
				}
				took := time.Since(began)
				if !name.held.Load() {
					took = -1
				}
				if took != c.after {
					t.Errorf("claimed after %s, want %s", took, c.after)
				}
			})
		})
	}
}

func TestLosingTheNameStopsTheHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// The first renewal takes over the Lease of a silent cluster. After that, another cluster's Lease means that the other cluster is
		// running.
		renewals := 0
		name := &claim{run: "1"}
		var ours *coordinationv1.Lease
		name.lease = func(context.Context) (*coordinationv1.Lease, error) {
			if renewals == 0 || renewals == 3 {
				return leaseOf("them", epoch.Time), nil
			}
			return ours, nil
		}
		name.own.Store("us")
		name.held.Store(true)
		ready := make(chan struct{})
		close(ready)
		h := &heartbeat{interval: 10 * time.Second, after: ready, claim: name, renew: func(context.Context) error {
			renewals++
			ours = leaseOf("us", name.renewing(metav1.NowMicro()).Time)
			ours.Annotations[api.AnnotationRun] = "1"
			name.renewed()
			return nil
		}}
		began := time.Now()
		if err := h.run(t.Context()); !errors.Is(err, errNameTaken) || time.Since(began) != 30*time.Second {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
	})
}

// The Lease shows whether the hub has been restored to an earlier state since the last renewal.
func TestASetBackHubIsNoticed(t *testing.T) {
	var there *coordinationv1.Lease
	var away error
	name := &claim{run: "2", lease: func(context.Context) (*coordinationv1.Lease, error) { return there, away }}
	name.held.Store(true)
	name.own.Store("us")
	second := 0
	at := func(run string, n int) *coordinationv1.Lease {
		lease := leaseOf("us", epoch.Add(time.Duration(n)*time.Second))
		lease.Annotations[api.AnnotationRun] = run
		return lease
	}
	renew := func(arrives, answered bool) {
		second++
		lease := at("2", second)
		name.renewing(*lease.Spec.RenewTime)
		if arrives {
			there = lease
		}
		if answered {
			name.renewed()
		}
	}
	check := func(what string, want bool) {
		t.Helper()
		if got, err := name.check(t.Context()); got != want || err != nil {
			t.Errorf("%s: %v, %v", what, got, err)
		}
	}
	there = at("1", 0)
	check("the Lease of the process before us", false)
	renew(true, true)
	check("what we wrote", false)
	renew(false, false)
	check("a renewal that didn't arrive", false)
	renew(true, false)
	check("one whose answer got lost", false)
	renew(true, true)
	there = at("2", 2)
	check("an earlier one of ours", true)
	check("the same, which has been said", false)
	renew(true, true)
	there = at("2", 2)
	check("set back once more, to the same", true)
	renew(true, true)
	there = at("1", 0)
	check("that of the process before us", true)
	renew(true, true)
	there = nil
	check("none", true)
	away = errors.New("no route")
	if setBack, err := name.check(t.Context()); setBack || !errors.Is(err, away) {
		t.Errorf("the hub is away: %v, %v", setBack, err)
	}
	for range 2 * maxUnconfirmed {
		renew(false, false)
	}
	if away = nil; len(name.wrote) > maxUnconfirmed {
		t.Errorf("it remembers %d renewals", len(name.wrote))
	}
	there = at("2", second)
	check("the last of many that got no answer", false)
}
