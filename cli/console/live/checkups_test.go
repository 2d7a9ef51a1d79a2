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

// checked returns a source that answers, and which the doctor asks with ask.
func checked(all *Sources, ask func(context.Context) *doctor.Facts) *source {
	s := all.add(console.Source{Role: console.RoleMember})
	s.asks, s.told = ask, time.Now().Add(time.Hour) // no Events
	s.set(console.Live, nil, nil)
	return s
}

// A source is asked every five minutes, and at the next look while it doesn't answer; what it said before is kept meanwhile. One that is known
// to be away isn't asked.
func TestCheckUps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, began := 0, time.Now()
		var away error
		s := checked(NewSources(console.New(console.Options{})), func(context.Context) *doctor.Facts {
			asked++
			return &doctor.Facts{Now: time.Now(), Cluster: &doctor.Server{Err: away}}
		})
		after := func(d time.Duration, times int, at time.Duration) {
			t.Helper()
			time.Sleep(d) //nolint:forbidigo // on the clock of synctest
			s.more(t.Context())
			if is := s.get().Asked; asked != times || !is.Now.Equal(began.Add(at)) {
				t.Errorf("after %s it was asked %d times, want %d, and has what it said at %s, want %s", time.Since(began), asked, times, is.Now.Sub(began), at)
			}
		}
		after(0, 1, 0)
		after(4*time.Minute, 1, 0)
		after(time.Minute, 2, 5*time.Minute)
		away = errors.New("connection refused")
		after(5*time.Minute, 3, 5*time.Minute)
		after(look, 4, 5*time.Minute)
		s.set(console.Away, away, nil)
		after(look, 4, 5*time.Minute)
		away = nil
		s.set(console.Live, nil, nil)
		after(look, 5, 10*time.Minute+3*look)
	})
}

// Few sources are asked at once, and none for longer than half a minute.
func TestCheckUpsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := NewSources(console.New(console.Options{}))
		var now, asked atomic.Int32
		var loops sync.WaitGroup
		for range 2 * maxCheckUps {
			s := checked(all, func(ctx context.Context) *doctor.Facts {
				asked.Add(1)
				now.Add(1)
				defer now.Add(-1)
				<-ctx.Done()
				return &doctor.Facts{}
			})
			loops.Go(func() {
				for s.asked.IsZero() {
					s.more(t.Context())
					time.Sleep(look) //nolint:forbidigo // on the clock of synctest
				}
			})
		}
		for _, want := range []struct{ now, asked int32 }{{maxCheckUps, maxCheckUps}, {maxCheckUps, 2 * maxCheckUps}, {0, 2 * maxCheckUps}} {
			synctest.Wait()
			if now.Load() != want.now || asked.Load() != want.asked {
				t.Errorf("%d are asked, and %d were, want %+v", now.Load(), asked.Load(), want)
			}
			time.Sleep(checkUpPatience + look + time.Second) //nolint:forbidigo // on the clock of synctest
		}
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
	for _, s := range []*source{m.source, h.source} {
		s.set(console.Live, nil, nil)
		if s.checkUp(t.Context()); s.asked.IsZero() {
			t.Fatal("it can't be reached")
		}
	}
	if f := m.get().Asked; f.Cluster.Version != "v1.36.0" || !f.ClusterDNS.Found || f.NodeLocalDNS.Found || f.NodeLocalDNS.Err != nil {
		t.Errorf("of the member, the doctor knows %+v", f)
	}
	if f := h.get().Asked; f.Cluster != nil || f.Hub.Version != "v1.36.0" || len(f.Hub.CRDs) == 0 {
		t.Errorf("of the hub, the doctor knows %+v", f)
	}
	bad := func(request string) bool {
		return !strings.HasPrefix(request, "GET ") || strings.Contains(request, "secret")
	}
	if slices.ContainsFunc(api.requests, bad) {
		t.Errorf("the requests were\n%s", strings.Join(api.requests, "\n"))
	}
}
