package exporter

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/internal/mcs"
)

// What is decided about services whose ServiceExports are gone. Rules C7 and C8 of docs/spec/control-plane.md; testdata/exports.txtar has the scripts.
func TestWithdrawalsAreJudged(t *testing.T) {
	const s, m = time.Second, time.Minute
	now := epoch.Time
	// some are so many services that have been missed for so long.
	type some struct {
		n        int
		age      time.Duration
		held     time.Duration // for how much longer; 0: not
		released bool
		gone     bool // from the hub
	}
	for _, c := range []struct {
		name     string
		exported int
		was      bool // the kind was lost
		lost     bool
		off      bool
		known    []some
		want     string // held, released and waiting ones
	}{
		{"one", 1, false, false, false, []some{{n: 1, age: 5 * s}}, "0 1 0"},
		{"ten of ten", 10, false, false, false, []some{{n: 10, age: 5 * s}}, "0 10 0"},
		{"eleven of eleven", 11, false, false, false, []some{{n: 11, age: 5 * s}}, "11 0 0"},
		{"more than half", 100, false, false, false, []some{{n: 51, age: 5 * s}}, "51 0 0"},
		{"half", 100, false, false, false, []some{{n: 50, age: 5 * s}}, "0 50 0"},
		{"it is off", 100, false, false, true, []some{{n: 100, age: 5 * s}}, "0 100 0"},
		{"one that may be replaced waits", 20, false, false, false, []some{{n: 1, age: 5 * s}, {n: 2, age: 4 * s}}, "0 1 2"},
		{"those that went moments before count", 10, false, false, false, []some{{n: 1, age: 5 * s}, {n: 10, age: 20 * s, released: true, gone: true}}, "1 10 0"},
		{"not those that went before that", 10, false, false, false, []some{{n: 1, age: 5 * s}, {n: 10, age: 31 * s, released: true, gone: true}}, "0 11 0"},
		{"those that the hub refuses to withdraw count once", 14, false, false, false, []some{{n: 6, age: 5 * s}, {n: 1, age: 20 * s, released: true}}, "0 7 0"},
		{"they are held, if they are too many", 14, false, false, false, []some{{n: 10, age: 5 * s}, {n: 1, age: 20 * s, released: true}}, "11 0 0"},
		{"those that are held don't count when others end", 20, false, false, false, []some{{n: 1, age: 5 * s}, {n: 12, age: 5 * m, held: 5 * m}}, "12 1 0"},
		{"moments later they do", 20, false, false, false, []some{{n: 1, age: 5 * s}, {n: 12, age: 25 * s, held: 5 * m}}, "13 0 0"},
		{"their time is over", 20, false, false, false, []some{{n: 12, age: 11 * m, held: -s}}, "0 12 0"},
		{"the kind is gone", 3, false, true, false, []some{{n: 1, age: 5 * s}, {n: 1, age: 5 * m, held: -s}, {n: 1, age: m, released: true}}, "2 1 0"},
		{"it is still gone", 3, true, true, false, []some{{n: 3, age: 5 * m, held: -s}}, "3 0 0"},
		{"it is back", 3, true, false, false, []some{{n: 3, age: 5 * m, held: -s}}, "3 0 0"},
	} {
		e := endings{of: map[types.NamespacedName]*ending{}, lost: c.was}
		going := sets.New[types.NamespacedName]()
		for i, k := range c.known {
			for n := range k.n {
				key := types.NamespacedName{Name: fmt.Sprint(i, "-", n)}
				e.of[key] = &ending{since: now.Add(-k.age), released: k.released}
				if k.held != 0 {
					e.of[key].until = now.Add(k.held)
				}
				if !k.gone {
					going.Insert(key)
				}
			}
		}
		hold := DefaultHoldWithdrawals
		if c.off {
			hold = 0
		}
		e.judge(now, c.lost, going, c.exported, hold, DefaultReplaceFor)
		var held, released, waiting int
		for _, e := range e.of {
			switch {
			case e.released:
				released++
			case e.until.After(now):
				held++
			case e.waits():
				waiting++
			}
		}
		if got := fmt.Sprint(held, released, waiting); got != c.want {
			t.Errorf("%s: %s are held, released and waiting, want %s", c.name, got, c.want)
		}
	}
}

// Services that go together are counted once it is quiet, by one of them. While the API server or a webhook hangs, the others neither wait nor ask
// too.
func TestOneServiceAsksForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newWithdrawalGuard(DefaultHoldWithdrawals, DefaultReplaceFor)
		asked := 0
		g.served = func(ctx context.Context, _ types.NamespacedName) (error, error) {
			asked++
			<-ctx.Done()
			return nil, nil
		}
		g.count = func(context.Context) ([]types.NamespacedName, int, error) { return nil, 20, nil }
		keys := []types.NamespacedName{{Name: "a"}, {Name: "b"}, {Name: "c"}}
		ask := func(i int, want stopped) {
			t.Helper()
			if s, err := g.ask(t.Context(), keys[i]); err != nil || s != want {
				t.Errorf("%+v, %v; want %+v", s, err, want)
			}
		}
		ask(0, stopped{retry: DefaultReplaceFor})
		ask(1, stopped{retry: DefaultReplaceFor})
		elapse(DefaultReplaceFor - time.Second)
		ask(2, stopped{retry: DefaultReplaceFor})
		elapse(time.Second)
		ask(0, stopped{retry: settleFor - time.Second})
		elapse(DefaultReplaceFor)
		done := make(chan struct{})
		began := time.Now()
		go func() {
			defer close(done)
			ask(0, stopped{})
		}()
		synctest.Wait()
		g.forget(types.NamespacedName{Name: "other"})
		ask(1, stopped{retry: judgeRetry})
		if waited := time.Since(began); waited > 0 {
			t.Errorf("another service waited for %s", waited)
		}
		<-done
		ask(1, stopped{})
		ask(2, stopped{})
		if took := time.Since(began); took != judgeFor || asked != 1 {
			t.Errorf("it took %s, and %d requests", took, asked)
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
