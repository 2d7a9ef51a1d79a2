package clusterset

import (
	"context"
	"errors"
	"io"
	"net/http"
	"path/filepath"
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
	later  int    // how many of the kind's preferred versions it doesn't serve

	mu      sync.Mutex
	missing int  // how many times it will say that it doesn't know the kind
	foreign bool // something else answers, with 404 to everything
	watches []io.Closer
}

func (a *kindServer) RoundTrip(r *http.Request) (*http.Response, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	version := a.kind.group + "/" + a.kind.versions[a.later]
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
				s := newSource(idle{})
				x := index.New(index.Options{})
				s.indexes = []*index.Index{x}
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() {
					defer close(done)
					api.kind.run(ctx, s, &rest.Config{Host: "http://192.0.2.1"}, &http.Client{Transport: api})
				}()
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
				cancel()
				api.end(0, false)
				<-done
			})
		})
	}
}

// A long outage makes the pauses between attempts long. They are short again once a watch has lasted.
func TestAVersionChangeIsFollowedAtOnceAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &kindServer{
			kind: watchedKinds[0], object: `"metadata":{"name":"web","namespace":"ns","resourceVersion":"1"},"spec":{"type":"Headless","ports":[{"port":80}]}`,
			later: 1, foreign: true,
		}
		s := newSource(idle{})
		s.indexes = []*index.Index{index.New(index.Options{})}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			api.kind.run(ctx, s, &rest.Config{Host: "http://192.0.2.1"}, &http.Client{Transport: api})
		}()
		watched := func() bool {
			api.mu.Lock()
			defer api.mu.Unlock()
			return len(api.watches) > 0
		}
		pass(10 * time.Minute)
		api.end(0, false)
		pass(2 * retryMax)
		if !watched() {
			t.Fatal("not watched after the outage")
		}
		pass(2 * retryMax)
		api.mu.Lock()
		api.later = 0
		api.mu.Unlock()
		api.end(0, false)
		pass(retryMax / 2)
		if !watched() {
			t.Error("the other version isn't watched at once")
		}
		cancel()
		api.end(0, false)
		<-done
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

// An API server that has just started may miss a kind for a moment. What a server answers from before it has read the kind then stays, but a
// kind that never was there is not waited for. Rule A54 of docs/spec/answers.md.
func TestOneAnswerWithoutAKindEndsNoEarlierState(t *testing.T) {
	service := []index.Object{numberedVIP(1)}
	const lasting = 1000
	for _, row := range []struct {
		name    string
		file    bool // the earlier state is that of a file, else of a server that is reloaded
		earlier []index.Object
		missing int  // answers
		waits   bool // for two more answers
		answers bool // the service, then
	}{
		{"a state file, and two answers", true, service, 2, true, true},
		{"a state file, and a kind that was deleted", true, service, lasting, true, false},
		{"a reload, and two answers", false, service, 2, true, true},
		{"a reload, and a kind that was deleted", false, service, lasting, true, false},
		{"a state file, and a kind that never was there", true, nil, lasting, false, false},
		{"a reload, and a kind that never was there", false, nil, lasting, false, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "snapshot")
			synctest.Test(t, func(t *testing.T) {
				api := &kindServer{
					kind: watchedKinds[0], missing: row.missing,
					object: `"metadata":{"name":"web","namespace":"ns","resourceVersion":"1"},"spec":{"type":"ClusterSetIP","ips":["10.0.0.1"],"ports":[{"port":80}]}`,
				}
				old, now := newSource(awayCluster{Cluster: thisCluster}), keptSource(t, path, 0)
				old.indexes = []*index.Index{index.New(index.Options{})}
				now.feed, now.corefile = kindFeed{api, thisCluster}, &sources{byKey: map[string]*source{"": now}}
				forget := register(t, old)
				if row.file {
					if err := statefile.Write(path, &statefile.State{Known: time.Now(), Cluster: thisCluster, Objects: row.earlier}); err != nil {
						t.Fatal(err)
					}
				} else {
					now.keeper = nil
					old.start()
					syncAll(old, row.earlier...)
				}
				x, began := now.indexes[0], time.Now()
				now.start()
				defer now.close()
				(&ClusterSet{index: x, source: now}).await(absentPoll / 2)
				forget()
				old.close()
				reads := time.Duration(0)
				if row.waits {
					reads = 2 * absentPoll
				}
				for ; time.Since(began) < 5*absentPoll; pass(absentPoll / 10) {
					synctest.Wait()
					known := x.Snapshot()
					if known == nil {
						t.Fatalf("after %v: nothing is known", time.Since(began))
					}
					read := time.Since(began) > reads+absentPoll/2
					if read && known.Stale() || time.Since(began) < reads && !known.Stale() {
						t.Fatalf("after %v: stale: %t", time.Since(began), known.Stale())
					}
					if answers := known.Service("web.ns") != nil; known.Stale() && answers != (row.earlier != nil) || read && answers != row.answers {
						t.Fatalf("after %v: answers: %t", time.Since(began), answers)
					}
				}
			})
		})
	}
}
