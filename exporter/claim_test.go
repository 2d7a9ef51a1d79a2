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
				}
				if err := name.run(ctx); err != nil {
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
		// The first renewal takes over from a silent cluster. Someone else's Lease after that is of a live one.
		renewals := 0
		name := &claim{lease: func(context.Context) (*coordinationv1.Lease, error) {
			if renewals == 0 || renewals == 3 {
				return leaseOf("them", epoch.Time), nil
			}
			return leaseOf("us", epoch.Time), nil
		}}
		name.own.Store("us")
		name.held.Store(true)
		ready := make(chan struct{})
		close(ready)
		h := &heartbeat{interval: 10 * time.Second, after: ready, claim: name, renew: func(context.Context) error {
			renewals++
			return nil
		}}
		began := time.Now()
		if err := h.run(t.Context()); !errors.Is(err, errNameTaken) || time.Since(began) != 30*time.Second {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
	})
}
