package live

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"github.com/clusterset/clusterset/cli/console"
	"github.com/clusterset/clusterset/cli/doctor"
)

// A source is asked every five minutes, and each minute while it can't be reached; what it said before is kept meanwhile.
func TestCheckUps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSources(console.New(console.Options{})).add(console.Source{Role: console.RoleMember})
		var asked atomic.Int32
		var away atomic.Bool
		ctx, stop := context.WithCancel(t.Context())
		var loop sync.WaitGroup
		loop.Go(func() {
			s.checkUps(ctx, func(context.Context) *doctor.Facts {
				asked.Add(1)
				f := &doctor.Facts{Now: time.Now(), Cluster: &doctor.Server{}}
				if away.Load() {
					f.Cluster.Err = errors.New("connection refused")
				}
				return f
			})
		})
		began := time.Now()
		after := func(d time.Duration, times int32, at time.Duration) {
			t.Helper()
			time.Sleep(d) //nolint:forbidigo // on the clock of synctest
			synctest.Wait()
			if is := s.get().Asked; asked.Load() != times || !is.Now.Equal(began.Add(at)) {
				t.Errorf("after %s it was asked %d times, want %d, and has what it said at %s, want %s", time.Since(began), asked.Load(), times, is.Now.Sub(began), at)
			}
		}
		after(time.Second, 1, 0)
		after(4*time.Minute, 1, 0)
		after(time.Minute, 2, 5*time.Minute)
		away.Store(true)
		after(5*time.Minute, 3, 5*time.Minute)
		after(time.Minute, 4, 5*time.Minute)
		away.Store(false)
		after(time.Minute, 5, 12*time.Minute)
		stop()
		loop.Wait()
	})
}

// Few sources are asked at once, and none for longer than half a minute.
func TestCheckUpsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := NewSources(console.New(console.Options{}))
		ctx, stop := context.WithCancel(t.Context())
		var now, asked atomic.Int32
		var loops sync.WaitGroup
		for range 2 * maxCheckUps {
			s := all.add(console.Source{Role: console.RoleMember})
			loops.Go(func() {
				s.checkUps(ctx, func(ctx context.Context) *doctor.Facts {
					asked.Add(1)
					now.Add(1)
					defer now.Add(-1)
					<-ctx.Done()
					return &doctor.Facts{}
				})
			})
		}
		for _, want := range []struct{ now, asked int32 }{{maxCheckUps, maxCheckUps}, {maxCheckUps, 2 * maxCheckUps}, {0, 2 * maxCheckUps}} {
			synctest.Wait()
			if now.Load() != want.now || asked.Load() != want.asked {
				t.Errorf("%d are asked, and %d were, want %+v", now.Load(), asked.Load(), want)
			}
			time.Sleep(checkUpPatience) //nolint:forbidigo // on the clock of synctest
		}
		stop()
		loops.Wait()
	})
}

// apiServer answers as an API server that serves ConfigMaps does, and records the requests.
type apiServer struct {
	mu       sync.Mutex
	requests []string
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, r.Method+" "+r.URL.Path)
	reply, known := map[string]string{
		"/version": `{"gitVersion":"v1.36.0"}`,
		"/api":     `{"kind":"APIVersions","versions":["v1"]}`,
		"/apis":    `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`,
		"/api/v1":  `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"v1","resources":[{"name":"configmaps","kind":"ConfigMap","namespaced":true,"verbs":["get"]}]}`,
		"/api/v1/namespaces/kube-system/configmaps/coredns": `{"kind":"ConfigMap","apiVersion":"v1","data":{"Corefile":". {\n}"}}`,
	}[r.URL.Path]
	w.Header().Set("Content-Type", "application/json")
	if !known {
		w.WriteHeader(http.StatusNotFound)
		reply = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`
	}
	_, _ = w.Write([]byte(reply))
}

// Check-ups only read: no Secret, and nothing that has to be created to be asked.
func TestCheckUpsOnlyRead(t *testing.T) {
	api := &apiServer{}
	server := httptest.NewServer(api)
	defer server.Close()
	config := &rest.Config{Host: server.URL}
	all := NewSources(console.New(console.Options{}))
	m, err := NewMember(config, "bj", "", all)
	if err != nil {
		t.Fatal(err)
	}
	h, err := NewHub(config, "hub", "", all)
	if err != nil {
		t.Fatal(err)
	}
	if !m.source.checkUp(t.Context(), m.asks.Ask) || !h.source.checkUp(t.Context(), h.asks.Ask) {
		t.Fatal("it can't be reached")
	}
	if f := m.source.get().Asked; f.Cluster.Version != "v1.36.0" || !f.ClusterDNS.Found || f.NodeLocalDNS.Found || f.NodeLocalDNS.Err != nil {
		t.Errorf("of the member, the doctor knows %+v", f)
	}
	if f := h.source.get().Asked; f.Cluster != nil || f.Hub.Version != "v1.36.0" || len(f.Hub.CRDs) == 0 {
		t.Errorf("of the hub, the doctor knows %+v", f)
	}
	bad := func(request string) bool {
		return !strings.HasPrefix(request, "GET ") || strings.Contains(request, "secret")
	}
	if slices.ContainsFunc(api.requests, bad) {
		t.Errorf("the requests were\n%s", strings.Join(api.requests, "\n"))
	}
}

// A check-up ends with the console, whatever the API server does.
func TestCheckUpsEnd(t *testing.T) {
	for _, hangs := range []string{"/version", "/apis", "/api/v1/namespaces/kube-system/configmaps/coredns"} {
		ctx, stop := context.WithCancel(t.Context())
		api := &apiServer{}
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == hangs {
				stop()
				<-r.Context().Done() // it answers only when the client has gone
				return
			}
			api.ServeHTTP(w, r)
		}))
		// The client's own discovery knows no context: only the timeout that every command sets ends it.
		m, err := NewMember(&rest.Config{Host: server.URL, Timeout: time.Second}, "bj", "", NewSources(console.New(console.Options{})))
		if err != nil {
			t.Fatal(err)
		}
		m.source.checkUps(ctx, m.asks.Ask)
		if m.source.get().Asked != nil {
			t.Errorf("%s: what was interrupted counts", hangs)
		}
		server.Close()
	}
}
