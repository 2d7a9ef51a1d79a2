package clusterset

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"github.com/clusterset/clusterset/internal/index"
	"github.com/clusterset/clusterset/internal/statefile"
)

// kindServer is an API server that has one object of a kind. Its watches can be ended, and it can lose the kind.
type kindServer struct {
	kind   *watchedKind
	object string // its fields but apiVersion and kind

	mu      sync.Mutex
	missing int  // how many times it will say that it doesn't know the kind
	foreign bool // something else answers, with 404 to everything
	watches []io.Closer
}

func (a *kindServer) RoundTrip(r *http.Request) (*http.Response, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	version := a.kind.group + "/" + a.kind.versions[0]
	group := "/apis/" + version
	reply := func(code int, body string) (*http.Response, error) {
		return &http.Response{StatusCode: code, Request: r, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body))}, nil
	}
	switch {
	case a.foreign:
		return reply(http.StatusNotFound, "")
	case r.URL.Path == "/apis":
		return reply(http.StatusOK, `{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"apps","versions":[]}]}`)
	case a.missing > 0:
		if r.URL.Path == group {
			a.missing--
		}
		return reply(http.StatusNotFound, "")
	case r.URL.Path == group:
		return reply(http.StatusOK, `{"kind":"APIResourceList","apiVersion":"v1","resources":[{"name":"`+a.kind.resource+`"}]}`)
	case !strings.HasPrefix(r.URL.Path, group+"/"):
		return reply(http.StatusNotFound, "")
	case r.URL.Query().Get("sendInitialEvents") == "":
		return nil, errors.New("not a list by watch")
	}
	head := `{"apiVersion":"` + version + `","kind":"` + a.kind.kind.String() + `"`
	response, err := reply(http.StatusOK, "")
	more, end := io.Pipe()
	a.watches = append(a.watches, end)
	response.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(strings.NewReader(`{"type":"ADDED","object":`+head+","+a.object+`}}
{"type":"BOOKMARK","object":`+head+`,"metadata":{"resourceVersion":"2","annotations":{"k8s.io/initial-events-end":"true"}}}}
`), more), more}
	return response, err
}

// end ends the watches. The server then doesn't know the kind for as many times as missing says, or is replaced by something else.
func (a *kindServer) end(missing int, foreign bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.missing, a.foreign = missing, foreign
	for _, w := range a.watches {
		_ = w.Close()
	}
	a.watches = nil
}

// follow runs the kind's watches with one index, until the test ends.
func (a *kindServer) follow(t *testing.T) (*source, *index.Index) {
	t.Helper()
	s, x := newSource(idle{}), index.New(index.Options{})
	s.indexes = []*index.Index{x}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.kind.run(ctx, s, &rest.Config{Host: "http://192.0.2.1"}, &http.Client{Transport: a})
	}()
	t.Cleanup(func() {
		cancel()
		a.end(0, false)
		<-done
	})
	return s, x
}

// Rule A54 of docs/spec/answers.md, and D51 of docs/spec/data-path.md: verdicts end whatever answers in the place of the API server.
func TestWhatIsServedOfAKindThatIsGone(t *testing.T) {
	service := `"metadata":{"name":"web","namespace":"ns","resourceVersion":"1"},"spec":{"type":"ClusterIP","ports":[{"port":80}],"endpoints":[]}`
	verdict := `"metadata":{"name":"local","resourceVersion":"1"},"stamp":"2026-01-01T00:00:00.000000Z","clusters":[{"name":"c1","reachable":"False"}]`
	for _, c := range []struct {
		name    string
		kind    int
		object  string
		missing int
		foreign bool
		gone    bool
		within  time.Duration
	}{
		{"a watch that ends", 2, service, 0, false, false, time.Hour},
		{"a kind that two answers lack", 2, service, 2, false, false, time.Hour},
		{"a kind that was deleted while no watch was open", 2, service, 1000, false, true, time.Minute},
		{"something else than an API server", 2, service, 0, true, false, time.Hour},
		{"verdicts, whose kind was deleted", 4, verdict, 1000, false, true, time.Minute},
		{"verdicts, and something else than an API server", 4, verdict, 0, true, true, reachAge},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := &kindServer{kind: watchedKinds[c.kind], object: c.object}
				s, x := api.follow(t)
				pass(time.Second)
				if n := x.Count(api.kind.kind); n != 1 {
					t.Fatalf("%d objects at the start", n)
				}
				api.end(c.missing, c.foreign)
				least := int64(1)
				for began := time.Now(); time.Since(began) < c.within; pass(100 * time.Millisecond) {
					least = min(least, x.Count(api.kind.kind))
				}
				if gone := least == 0; gone != c.gone {
					t.Errorf("gone: %t, want %t", gone, c.gone)
				}
				s.mu.Lock()
				if known := s.watched[api.kind.kind]; known == c.foreign {
					t.Errorf("known: %t", known)
				}
				s.mu.Unlock()
			})
		})
	}
}

// A stamp of another clock counts as well as any: only that it changes does. Rule D51 of docs/spec/data-path.md.
func TestAVerdictCountsWhileItsStampChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a ageing
		defer a.stop()
		expired, stamp := 0, time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC)
		for range 2 {
			for range 5 {
				stamp = stamp.Add(time.Second)
				if a.saw(stamp, func() { expired++ }) {
					t.Error("a stamp that changes is too old")
				}
				pass(reachAge / 2)
			}
			pass(reachAge)
			if !a.saw(stamp, nil) {
				t.Error("a stamp that stays isn't too old")
			}
		}
		if expired != 2 {
			t.Errorf("expired %d times, want twice", expired)
		}
	})
}

// kindFeed is a feed of a cluster that has one kind only.
type kindFeed struct {
	*kindServer
	statefile.Cluster
}

func (kindFeed) name() string { return sourceKubernetes }

func (f kindFeed) identity() statefile.Cluster { return f.Cluster }

func (f kindFeed) run(ctx context.Context, s *source) {
	for _, k := range index.Kinds {
		if k != f.kind.kind {
			s.replace(k, nil)
		}
	}
	f.kind.run(ctx, s, &rest.Config{Host: "http://192.0.2.1"}, &http.Client{Transport: f.kindServer})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A proxy may answer every request with 410 Gone. The source must then send only few requests: the Reflector alone would repeat a WatchList as
// soon as it is answered, thousands of times a second. A refused watch is followed by a list, which is refused too: both together count as one
// failure and write one line to the log.
func TestRefusedRequestsAreFewAndCountedOnce(t *testing.T) {
	for reason, code := range map[string]int{"Expired": http.StatusGone, "Forbidden": http.StatusForbidden} {
		t.Run(reason, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				watches, lists := 0, 0
				client := &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
					if r.URL.Query().Get("watch") != "" {
						watches++
					} else {
						lists++
					}
					if watches+lists > 1000 {
						cancel()
					}
					return &http.Response{
						StatusCode: code, Request: r, Header: http.Header{"Content-Type": {"application/json"}},
						Body: io.NopCloser(strings.NewReader(fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d}`, reason, code))),
					}, nil
				})}
				kind := watchedKinds[0]
				failures := errorsTotal.WithLabelValues(sourceKubernetes, kind.kind.String())
				before := counterValue(failures)
				done := make(chan struct{})
				go func() {
					defer close(done)
					kind.watch(ctx, &store{kind: kind, source: newSource(idle{})}, &rest.Config{Host: "http://192.0.2.1"}, client, kind.versions[0])
				}()
				pass(time.Minute)
				cancel()
				<-done
				if n := watches + lists; n < 5 || n > 150 {
					t.Errorf("%d requests in a minute", n)
				}
				rounds := float64(max(watches, lists))
				if got := counterValue(failures) - before; got > rounds || got < rounds-1 {
					t.Errorf("%v failures were counted of %d watches and %d lists", got, watches, lists)
				}
			})
		})
	}
}
