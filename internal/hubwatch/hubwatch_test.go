//nolint:bodyclose // the replies are the tests' own
package hubwatch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/clusterset/clusterset/internal/narrow"
)

// server answers requests with its function.
type server func(r *http.Request) (*http.Response, error)

func (s server) RoundTrip(r *http.Request) (*http.Response, error) { return s(r) }

func reply(code int) *http.Response {
	body, _ := io.Pipe() // the body of a watch, which never ends by itself
	return &http.Response{StatusCode: code, Body: body}
}

func get(t *testing.T, rt http.RoundTripper, query string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://hub/apis/x?"+query, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	reply, err := rt.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	return reply
}

// While a server is down, a watch is retried without limit. It is open soon after the server is back.
func TestWaitsForTheHub(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New()
		down := time.Now().Add(time.Hour)
		up := down.Add(5 * time.Second)
		rt := w.Wrap(server(func(*http.Request) (*http.Response, error) {
			switch {
			case time.Now().Before(down):
				return nil, errors.New("connection refused")
			case time.Now().Before(up): // the server has not yet loaded the roles
				return reply(http.StatusForbidden), nil
			}
			return reply(http.StatusOK), nil
		}))
		if w.Open() {
			t.Error("it says that there is a watch before there is")
		}
		r := get(t, rt, "watch=true&resourceVersion=7")
		if late := time.Since(up); r.StatusCode != http.StatusOK || late > 2*time.Second {
			t.Errorf("status %d, %s after the server was back", r.StatusCode, late)
		}
		select {
		case <-w.Back():
		default:
			t.Error("it doesn't say that the server is back")
		}
		if !w.Open() {
			t.Error("it doesn't say that the watch is open")
		}
		_ = r.Body.Close()
		time.Sleep(closedFor) //nolint:forbidigo // synctest's clock
		if !w.Open() {
			t.Error("a watch that ended counts as lost at once")
		}
		time.Sleep(time.Second) //nolint:forbidigo // synctest's clock
		if w.Open() {
			t.Error("a watch that ended and wasn't opened again counts as open")
		}
	})
}

// An agent's watches don't each ask a hub that is away: one at a time does, and once it is open, the others are at once. Rule C70 of
// docs/spec/control-plane.md.
func TestOneWatchAsksForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const watches = 20
		var mu sync.Mutex
		up := time.Now().Add(time.Minute)
		asked, opened := 0, []time.Duration{}
		rt := New().Wrap(server(func(*http.Request) (*http.Response, error) {
			mu.Lock()
			defer mu.Unlock()
			if time.Now().Before(up) {
				asked++
				return nil, errors.New("connection refused")
			}
			opened = append(opened, time.Since(up))
			return reply(http.StatusOK), nil
		}))
		var all sync.WaitGroup
		for i := range watches {
			all.Go(func() { get(t, rt, fmt.Sprint("watch=true&resourceVersion=7&labelSelector=", i)) })
		}
		all.Wait()
		if asked > watches+60 {
			t.Errorf("the hub was asked %d times in a minute", asked)
		}
		if last := opened[len(opened)-1]; last > retryAfter*3/2 || last > opened[0] {
			t.Errorf("the watches were open %s to %s after the hub was back", opened[0], last)
		}
	})
}

// If a running server keeps refusing a watch, the informer gets the error.
func TestPassesOnWhatIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := New().Wrap(server(func(*http.Request) (*http.Response, error) { return reply(http.StatusUnauthorized), nil }))
		began := time.Now()
		r := get(t, rt, "watch=true")
		if took := time.Since(began); r.StatusCode != http.StatusUnauthorized || took < starting || took > starting+2*time.Second {
			t.Errorf("status %d after %s", r.StatusCode, took)
		}
	})
}

// An API server that can't list by watch answers with 422, or before 1.27 with 400. The informer must get that at once, or each list would
// take half a minute.
func TestPassesOnAtOnceWhatIsInvalid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, code := range []int{http.StatusBadRequest, http.StatusUnprocessableEntity} {
			rt := New().Wrap(server(func(*http.Request) (*http.Response, error) { return reply(code), nil }))
			began := time.Now()
			if r := get(t, rt, "watch=true&sendInitialEvents=true"); r.StatusCode != code || time.Since(began) > 0 {
				t.Errorf("status %d after %s, want %d at once", r.StatusCode, time.Since(began), code)
			}
		}
	})
}

// After Relist, no informer resumes from an earlier version, whichever way it lists.
func TestRelist(t *testing.T) {
	for name, list := range map[string]string{"with a watch": "watch=true&sendInitialEvents=true", "with a list": "limit=500", "from the server's cache": "resourceVersion=0"} {
		t.Run(name, func(t *testing.T) {
			w := New()
			rt := w.Wrap(server(func(*http.Request) (*http.Response, error) { return reply(http.StatusOK), nil }))
			other := "watch=true&resourceVersion=5&labelSelector=a"
			before := get(t, rt, "watch=true&resourceVersion=5")
			get(t, rt, other)
			w.Relist()
			if _, err := before.Body.Read(make([]byte, 1)); err == nil || !w.Open() {
				t.Errorf("a watch of before goes on: %v", err)
			}
			for _, on := range []string{"watch=true&resourceVersion=5", "watch=true&resourceVersion=5&sendInitialEvents=true", "resourceVersion=5", other} {
				if r := get(t, rt, on); r.StatusCode != http.StatusGone {
					t.Errorf("%s: status %d", on, r.StatusCode)
				}
			}
			for _, on := range []string{list, "watch=true&resourceVersion=9"} {
				if r := get(t, rt, on); r.StatusCode != http.StatusOK {
					t.Errorf("%s: status %d", on, r.StatusCode)
				}
			}
			if r := get(t, rt, other); r.StatusCode != http.StatusGone {
				t.Errorf("objects that have not been listed: status %d", r.StatusCode)
			}
		})
	}
}

// When an unreachable hub comes back, the process can't know whether it was restored, so it lists everything again. But it must not list
// endlessly if the hub refuses one watch after another.
func TestRelistWhenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New()
		away, began := 0, time.Now()
		rt := w.Wrap(server(func(*http.Request) (*http.Response, error) {
			if away > 0 {
				away--
				return reply(http.StatusTooManyRequests), nil
			}
			return reply(http.StatusOK), nil
		}))
		ctx, cancel := context.WithCancel(t.Context())
		stopped := make(chan struct{})
		go func() { defer close(stopped); _ = w.RelistWhenBack(ctx) }()
		on := "watch=true&resourceVersion=5"
		get(t, rt, on)
		synctest.Wait()
		if r := get(t, rt, on); r.StatusCode != http.StatusOK {
			t.Errorf("a hub that was never away: status %d", r.StatusCode)
		}
		for _, after := range []time.Duration{0, betweenLists} {
			away = 1
			open := get(t, rt, on)
			if _, err := open.Body.Read(make([]byte, 1)); err == nil || time.Since(began) < after {
				t.Errorf("the watch that opened when the hub was back ended after %s: %v", time.Since(began), err)
			}
			if r := get(t, rt, on); r.StatusCode != http.StatusGone {
				t.Errorf("going on from before: status %d", r.StatusCode)
			}
			get(t, rt, "resourceVersion=0")
		}
		cancel()
		<-stopped
	})
}

// A response to a request sent before Relist counts as being from before Relist.
func TestAnswersOfBefore(t *testing.T) {
	w := New()
	rt := w.Wrap(server(func(r *http.Request) (*http.Response, error) {
		if r.URL.Query().Has("slow") {
			w.Relist()
		}
		return reply(http.StatusOK), nil
	}))
	get(t, rt, "watch=true")
	if r := get(t, rt, "slow&watch=true"); r.StatusCode != http.StatusGone {
		t.Errorf("a watch that was asked for before: status %d", r.StatusCode)
	}
	get(t, rt, "slow")
	if r := get(t, rt, "watch=true&resourceVersion=5"); r.StatusCode != http.StatusGone {
		t.Errorf("going on from a list of before: status %d", r.StatusCode)
	}
}

// A watch that can't be opened yet must not resume from an old version: a restored hub answers requests for a version from its future with
// errors.
func TestRelistEndsRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New()
		set := false
		rt := w.Wrap(server(func(*http.Request) (*http.Response, error) {
			if set {
				return reply(http.StatusGatewayTimeout), nil
			}
			return reply(http.StatusOK), nil
		}))
		get(t, rt, "watch=true")
		set = true
		began := time.Now()
		go func() {
			time.Sleep(3 * time.Second) //nolint:forbidigo // synctest's clock
			w.Relist()
		}()
		if r := get(t, rt, "watch=true&resourceVersion=7"); r.StatusCode != http.StatusGone || time.Since(began) > 5*time.Second {
			t.Errorf("status %d after %s", r.StatusCode, time.Since(began))
		}
	})
}

// A watch whose informer has stopped doesn't count as lost.
func TestForgetsWithTheInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New()
		rt := w.Wrap(server(func(*http.Request) (*http.Response, error) { return reply(http.StatusOK), nil }))
		get(t, rt, "watch=true")
		ctx, cancel := context.WithCancel(t.Context())
		r, _ := http.NewRequestWithContext(ctx, http.MethodGet, "https://hub/apis/y?watch=true", http.NoBody)
		brief, err := rt.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		_ = brief.Body.Close()
		time.Sleep(2 * closedFor) //nolint:forbidigo // synctest's clock
		if !w.Open() {
			t.Error("it waits for a watch that nobody wants")
		}
	})
}

// If a watch ends because other namespaces became relevant, it is not forgotten: Relist applies to it too. That is why Watches is the outer
// of the two transports.
func TestRelistWhereTheSelectionChanges(t *testing.T) {
	w, selection := New(), narrow.NewSelection()
	rt := w.Wrap(selection.Wrap(server(func(r *http.Request) (*http.Response, error) {
		body, writer := io.Pipe()
		context.AfterFunc(r.Context(), func() { _ = writer.CloseWithError(r.Context().Err()) })
		return &http.Response{StatusCode: http.StatusOK, Body: body}, nil
	})))
	selection.Set([]string{"shop"})
	selection.See(nil)
	watch := func(query string) *http.Response {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://hub/apis/clusterset.dev/v1alpha1/exportedservices?watch=true&"+query, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		reply, err := rt.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		return reply
	}
	ended := func(what string, r *http.Response) {
		t.Helper()
		if _, err := r.Body.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("%s: the watch ends with %v", what, err)
		}
		_ = r.Body.Close()
	}
	open := watch("sendInitialEvents=true")
	selection.Set([]string{"shop", "bank"})
	ended("another selection", open)
	open = watch("sendInitialEvents=true")
	w.Relist()
	ended("another past", open)
	if r := watch("resourceVersion=7"); r.StatusCode != http.StatusGone {
		t.Errorf("going on from before: status %d", r.StatusCode)
	}
	watch("sendInitialEvents=true")
	if r := watch("resourceVersion=9"); r.StatusCode != http.StatusOK {
		t.Errorf("going on from now: status %d", r.StatusCode)
	}
}

// If an informer had to list again when the hub was back, because the hub no longer knew its version, Relist doesn't make it list once
// more: its list shows the current hub. A list from before the outage, or from long ago, doesn't count.
func TestRelistSparesFreshLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New()
		var away int
		forgets := false
		rt := w.Wrap(server(func(r *http.Request) (*http.Response, error) {
			switch {
			case away > 0:
				away--
				return nil, errors.New("connection refused")
			case forgets && r.URL.Query().Get("resourceVersion") != "":
				return reply(http.StatusGone), nil
			}
			return reply(http.StatusOK), nil
		}))
		is := func(what string, r *http.Response, open bool) {
			t.Helper()
			read := make(chan error, 1)
			go func() {
				_, err := r.Body.Read(make([]byte, 1))
				read <- err
			}()
			synctest.Wait()
			select {
			case err := <-read:
				if open {
					t.Errorf("%s: the watch ended: %v", what, err)
				}
			default:
				if !open {
					t.Errorf("%s: the watch is open", what)
				}
				_ = r.Body.Close()
			}
		}
		list := func() *http.Response { return get(t, rt, "watch=true&sendInitialEvents=true") }
		before := list()
		w.Relist()
		is("listed while the hub was there", before, false)
		_ = list().Body.Close()
		away, forgets = 3, true
		if r := get(t, rt, "watch=true&resourceVersion=5"); r.StatusCode != http.StatusGone {
			t.Fatalf("status %d", r.StatusCode)
		}
		select {
		case <-w.Back():
		default:
			t.Error("it doesn't say that the hub is back that forgot")
		}
		fresh := list()
		w.Relist()
		forgets = false
		if r := get(t, rt, "watch=true&resourceVersion=9"); r.StatusCode != http.StatusOK {
			t.Errorf("going on from a fresh list: status %d", r.StatusCode)
		}
		is("listed when the hub was back", fresh, true)
		old := list()
		time.Sleep(2 * freshFor) //nolint:forbidigo // synctest's clock
		w.Relist()
		is("listed long ago", old, false)
	})
}
