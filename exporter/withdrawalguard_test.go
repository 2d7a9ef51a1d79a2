package exporter

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/internal/mcs"
)

// braked is a member that exports some services and loses ServiceExports.
type braked struct {
	*testing.T
	withdrawalGuard
	exported int
	going    map[types.NamespacedName]bool
	kind     error
	counts   int
}

func newBraked(t *testing.T, exported int) *braked {
	b := &braked{T: t, exported: exported, going: map[types.NamespacedName]bool{}}
	b.withdrawalGuard = newWithdrawalGuard(DefaultHoldWithdrawals, DefaultReplaceFor)
	b.served = func(context.Context, types.NamespacedName) (error, error) { return b.kind, nil }
	b.count = func(context.Context) (keys []types.NamespacedName, exported int, err error) {
		b.counts++
		return slices.Collect(maps.Keys(b.going)), b.exported, nil
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

// run asks about all services until each is held or withdrawn, and returns the number of each.
func (b *braked) run(keys []types.NamespacedName) (held, gone int) {
	b.Helper()
	for {
		var wait time.Duration
		held, undecided := 0, false
		for _, key := range keys {
			if !b.going[key] {
				continue // withdrawn in an earlier round
			}
			s, err := b.ask(b.Context(), key)
			switch {
			case err != nil:
				b.Fatal(err)
			case s.held:
				held++
			case s.retry == 0:
				gone++
				delete(b.going, key)
				b.exported--
			default:
				undecided = true
				wait = max(wait, s.retry)
			}
		}
		if !undecided {
			return held, gone
		}
		elapse(wait)
	}
}

// Rule C7 of docs/spec/control-plane.md.
func TestBrake(t *testing.T) {
	for _, c := range []struct {
		name           string
		exported, lose int
		held, gone     int
	}{
		{"one", 1, 1, 0, 1},
		{"ten of ten", 10, 10, 0, 10},
		{"eleven of eleven", 11, 11, 11, 0},
		{"all of a hundred", 100, 100, 100, 0},
		{"more than half", 100, 51, 51, 0},
		{"half", 100, 50, 0, 50},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBraked(t, c.exported)
				keys := b.lose(0, c.lose)
				if held, gone := b.run(keys); held != c.held || gone != c.gone || b.counts != 1 {
					t.Errorf("%d are held and %d gone after %d counts, want %d and %d after one", held, gone, b.counts, c.held, c.gone)
				}
				if c.held == 0 {
					return
				}
				elapse(DefaultHoldWithdrawals - time.Minute)
				if _, gone := b.run(keys); gone > 0 {
					t.Errorf("%d are gone before the time is over", gone)
				}
				elapse(time.Minute)
				if held, _ := b.run(keys); held > 0 {
					t.Errorf("%d are held for longer", held)
				}
			})
		})
	}
}

// Exports are held for ten minutes, whatever else ends meanwhile, and don't count when others end. Those that end moments later do. Rule C7 of
// docs/spec/control-plane.md.
func TestBrakeHoldsForTenMinutesWhateverElseGoes(t *testing.T) {
	for name, refuses := range map[string]bool{"the hub takes the withdrawals": false, "the hub refuses the withdrawals": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBraked(t, 20)
				keys := b.lose(0, 12)
				if held, _ := b.run(keys); held != 12 {
					t.Errorf("%d of twelve are held", held)
				}
				began := time.Now()
				elapse(goneFor / 2)
				if held, _ := b.run(b.lose(12, 2)); held != 2 {
					t.Errorf("%d of the next two are held", held)
				}
				elapse(DefaultHoldWithdrawals / 2)
				if held, gone := b.run(b.lose(14, 1)); held != 0 || gone != 1 {
					t.Error("a single one is held")
				}
				elapse(DefaultHoldWithdrawals - time.Since(began))
				if held, gone := b.run(keys); held != 0 || gone != 12 {
					t.Errorf("after its time %d are held, %d are gone", held, gone)
				}
				if refuses {
					b.lose(0, 12)
					b.exported += 12
					for _, key := range keys {
						b.of[key] = &ending{since: began, released: true}
					}
				}
				if held, gone := b.run(b.lose(15, 1)); held != 0 || gone != 1 {
					t.Error("a single one is held when the others' time is over")
				}
			})
		})
	}
}

// Exports that end one after another are each withdrawn after the same few seconds; one whose ServiceExport is back by then isn't. Rule C8
// of docs/spec/control-plane.md.
func TestBrakeLetsSingleOnesGoSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBraked(t, 20)
		for i := range 20 {
			began := time.Now()
			if _, gone := b.run(b.lose(i, 1)); gone != 1 {
				t.Errorf("the %d. is held", i)
			}
			if took := time.Since(began); took != DefaultReplaceFor {
				t.Errorf("the %d. waited for %s", i, took)
			}
			elapse(goneFor + time.Second)
		}
		key := b.lose(20, 1)[0]
		for range 3 { // it is replaced again and again
			if s, err := b.ask(t.Context(), key); err != nil || s.retry == 0 {
				t.Errorf("%+v, %v", s, err)
			}
			elapse(DefaultReplaceFor - time.Second)
			b.forget(key)
		}
	})
}

// While the API server or a webhook hangs, other services neither wait nor ask too.
func TestBrakeAsksWithoutItsLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBraked(t, 20)
		asked := 0
		b.served = func(ctx context.Context, _ types.NamespacedName) (error, error) {
			asked++
			<-ctx.Done()
			return nil, nil
		}
		keys := b.lose(0, 3)
		for _, key := range keys {
			if _, err := b.ask(t.Context(), key); err != nil {
				t.Fatal(err)
			}
		}
		elapse(DefaultReplaceFor)
		done := make(chan struct{})
		began := time.Now()
		go func() {
			defer close(done)
			if s, err := b.ask(t.Context(), keys[0]); err != nil || s != (stopped{}) {
				t.Errorf("%+v, %v", s, err)
			}
		}()
		synctest.Wait()
		b.forget(types.NamespacedName{Namespace: "shop", Name: "other"})
		if s, err := b.ask(t.Context(), keys[1]); err != nil || s.retry == 0 || s.held {
			t.Errorf("while another asks: %+v, %v", s, err)
		}
		if waited := time.Since(began); waited > 0 {
			t.Errorf("another service waited for %s", waited)
		}
		<-done
		if took := time.Since(began); took != judgeFor {
			t.Errorf("it took %s", took)
		}
		for _, key := range keys[1:] {
			if s, err := b.ask(t.Context(), key); err != nil || s != (stopped{}) {
				t.Errorf("%+v, %v", s, err)
			}
		}
		if asked != 1 || b.counts != 1 {
			t.Errorf("asked %d times and counted %d times", asked, b.counts)
		}
	})
}

// A hub that refuses a withdrawal for a while, for example because its etcd is full, causes many requests for one service. They must not
// count as many services.
func TestBrakeCountsAServiceOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBraked(t, 14)
		keys := b.lose(0, 1)
		b.run(keys)
		for range 12 { // the hub refuses, and the exporter tries again
			b.lose(0, 1)
			b.exported = 14
			if s, err := b.ask(t.Context(), keys[0]); err != nil || s.held {
				t.Fatalf("%+v, %v", s, err)
			}
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
	synctest.Test(t, func(t *testing.T) {
		b := newBraked(t, 100)
		b.holdFor = 0
		began := time.Now()
		if held, gone := b.run(b.lose(0, 100)); held != 0 || gone != 100 || time.Since(began) != DefaultReplaceFor {
			t.Errorf("%d are held and %d gone after %s", held, gone, time.Since(began))
		}
	})
}

// What the member's API server answers to a ServiceExport says whether it serves the kind; no answer doesn't. Rule C7 of
// docs/spec/control-plane.md.
func TestServed(t *testing.T) {
	kind := runtimeschema.GroupResource{Group: mcsv1beta1.GroupName, Resource: "serviceexports"}
	for what, c := range map[string]struct {
		answer error
		served bool
	}{
		"taken":              {nil, true},
		"a webhook hangs":    {&url.Error{Op: "Post", Err: context.DeadlineExceeded}, true},
		"there already":      {apierrors.NewAlreadyExists(kind, web.Name), true},
		"a policy's refusal": {apierrors.NewForbidden(kind, web.Name, errors.New("denied by policy")), true},
		"no namespace":       {apierrors.NewNotFound(runtimeschema.GroupResource{Resource: "namespaces"}, web.Namespace), true},
		"the kind goes":      {apierrors.NewForbidden(kind, web.Name, errors.New("create not allowed while custom resource definition is terminating")), false},
		"the kind is gone":   {apierrors.NewGenericServerResponse(http.StatusNotFound, "post", kind, "", "404 page not found", 0, true), false},
	} {
		e := exports{version: mcs.Version("v1beta1"), client: interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
			Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return c.answer },
		})}
		if gone, err := e.served(t.Context(), web); (gone == nil) != c.served || err != nil {
			t.Errorf("%s: %v, %v", what, gone, err)
		}
	}
	e := exports{version: mcs.Version("v1beta1"), client: interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
			return &url.Error{Op: "Post", Err: errors.New("connection refused")}
		},
	})}
	if _, err := e.served(t.Context(), web); err == nil {
		t.Error("an API server that isn't reached serves the kind")
	}
}
