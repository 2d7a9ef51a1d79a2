package exporter

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// braked is a member that exports some services and loses ServiceExports.
type braked struct {
	*testing.T
	brake
	exported int
	going    map[types.NamespacedName]bool
	kind     error
	alone    bool
}

func newBraked(t *testing.T, exported int) *braked {
	b := &braked{T: t, exported: exported, going: map[types.NamespacedName]bool{}, alone: true}
	b.brake = brake{
		holdFor: DefaultHoldWithdrawals,
		served:  func(context.Context, types.NamespacedName) error { return b.kind },
		count: func(context.Context) (keys []types.NamespacedName, exported int, err error) {
			for key := range b.going {
				keys = append(keys, key)
			}
			return keys, b.exported, nil
		},
		single: func() bool { return b.alone },
	}
	return b
}

func (b *braked) lose(from, n int) (keys []types.NamespacedName) {
	for i := range n {
		key := types.NamespacedName{Namespace: "shop", Name: fmt.Sprintf("s%d", from+i)}
		b.going[key] = true
		keys = append(keys, key)
	}
	return keys
}

// run asks about each service until it is held or withdrawn, and returns the number of each.
func (b *braked) run(keys []types.NamespacedName) (held, gone int) {
	b.Helper()
	for _, key := range keys {
		for {
			s, err := b.ask(b.Context(), key)
			if err != nil {
				b.Fatal(err)
			}
			if s.held {
				held++
				break
			}
			if s.retry == 0 {
				gone++
				delete(b.going, key)
				b.exported--
				break
			}
			elapse(s.retry)
		}
	}
	return held, gone
}

// Rule C7 of docs/spec/control-plane.md.
func TestBrake(t *testing.T) {
	for _, c := range []struct {
		name           string
		exported, lose int
		single         bool
		held, gone     int
	}{
		{"one", 1, 1, true, 0, 1},
		{"ten of ten", 10, 10, true, 0, 10},
		{"eleven of eleven", 11, 11, true, 10, 1},
		{"all of a hundred", 100, 100, true, 99, 1},
		{"more than half", 100, 51, true, 50, 1},
		{"half", 100, 50, true, 0, 50},
		{"all of a hundred, while nobody was there", 100, 100, false, 100, 0},
		{"one, while nobody was there", 100, 1, false, 0, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBraked(t, c.exported)
				b.alone = c.single
				keys := b.lose(0, c.lose)
				if held, gone := b.run(keys); held != c.held || gone != c.gone {
					t.Errorf("%d are held and %d gone, want %d and %d", held, gone, c.held, c.gone)
				}
				if c.held == 0 {
					return
				}
				elapse(DefaultHoldWithdrawals - time.Minute)
				if _, gone := b.run(keys[c.gone:]); gone > 0 {
					t.Errorf("%d are gone before the time is over", gone)
				}
				elapse(time.Minute)
				if held, _ := b.run(keys[c.gone:]); held > 0 {
					t.Errorf("%d are held for longer", held)
				}
			})
		})
	}
}

// Exports that end one after another are each withdrawn at once, the last as quickly as the first.
func TestBrakeLetsSingleOnesGoAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBraked(t, 20)
		began := time.Now()
		for i := range 20 {
			if _, gone := b.run(b.lose(i, 1)); gone != 1 {
				t.Errorf("the %d. is held", i)
			}
			if now := time.Now(); !now.Equal(began) {
				t.Errorf("the %d. waited for %s", i, now.Sub(began))
			}
			elapse(goneFor + time.Second)
			began = time.Now()
		}
	})
}

// A hub that refuses a withdrawal for a while, for example because its etcd is full, causes many requests for one service. They must not
// count as many services.
func TestBrakeCountsAServiceOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBraked(t, 14)
		keys := b.lose(0, 1)
		for range 12 { // the hub refuses, and the exporter tries again
			if _, gone := b.run(keys); gone != 1 {
				t.Fatal("it is held")
			}
			b.lose(0, 1)
			b.exported++
			elapse(2 * time.Second)
		}
		if held, gone := b.run(b.lose(1, 6)); held > 0 || gone != 6 { // seven of fourteen
			t.Errorf("of six others %d are held", held)
		}
	})
}

// If the kind ServiceExport is gone, missing objects mean nothing, however few services are concerned. When the kind is back, users get the
// full time to restore their ServiceExports.
func TestBrakeWithoutTheKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBraked(t, 3)
		keys := b.lose(0, 3)
		b.kind = errors.New("no matches for kind ServiceExport")
		for range 2 {
			if held, _ := b.run(keys); held != 3 {
				t.Errorf("%d are held", held)
			}
			elapse(time.Hour)
		}
		b.kind = nil
		if held, _ := b.run(keys); held != 3 {
			t.Errorf("%d are held now that the kind is back", held)
		}
		b.forget(keys[0]) // its ServiceExport is back
		elapse(DefaultHoldWithdrawals)
		if held, gone := b.run(keys[1:]); held != 0 || gone != 2 {
			t.Errorf("%d are held and %d gone after its users had their time", held, gone)
		}
	})
}

func TestBrakeOff(t *testing.T) {
	b := newBraked(t, 100)
	b.holdFor = 0
	if held, gone := b.run(b.lose(0, 100)); held != 0 || gone != 100 {
		t.Errorf("%d are held and %d gone", held, gone)
	}
}
