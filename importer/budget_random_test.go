//go:build !race

// This test uses a single goroutine, and the changes of memory_test.go.

package importer

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/internal/door"
)

// Whatever changes, and however little may be written: nothing that the hub has is removed, and in the end everything is as it is without a
// budget.
func TestBudgetsChangeOnlyWhen(t *testing.T) {
	waited := 0
	for seed := range uint64(15) {
		r := rand.New(rand.NewPCG(seed, 23))
		c := &changes{rig: newRig(Options{WriteRate: 2 << 10, WriteBurst: 8 << 10}), Rand: r}
		for range 8 {
			c.exported()
			c.endpoints()
		}
		var log []string
		for range 60 {
			log = append(log, c.any())
			if c.reconcile(t).RequeueAfter > 0 {
				waited++
			}
			in, cur := c.gathered(t)
			for _, e := range in.Exports {
				known := slices.ContainsFunc(c.memories.get(web).exports, func(o *door.Export) bool { return o.ID() == e.ID() })
				if known && cur.ServiceImport == nil && len(desired.Compute(in).Slices) > 0 {
					t.Fatalf("seed %d: the import is gone although %s exports, after %v", seed, e.Cluster, log[max(0, len(log)-8):])
				}
			}
		}
		c.settled(t)
		c.clock.Step(3 * time.Hour) // what vanished is gone
		c.settled(t)
		forgetful := *c.reconciler
		forgetful.memories, forgetful.budget = newMemories(), newBudget(c.clock, Options{WriteRate: 1, WriteBurst: 1 << 30}, c.report.late)
		c.here.writes = nil
		if _, err := forgetful.Reconcile(context.Background(), reconcile.Request{NamespacedName: web}); err != nil || len(c.here.writes) > 0 {
			t.Fatalf("seed %d: not everything is written: %v, %v", seed, c.here.writes, err)
		}
	}
	if waited < 50 {
		t.Errorf("only %d changes waited", waited)
	}
}
