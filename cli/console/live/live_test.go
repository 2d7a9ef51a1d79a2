package live

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"github.com/clusterset/clusterset/cli/console"
	"github.com/clusterset/clusterset/cli/doctor"
)

// is returns what the console has of a source.
func (s *Source) is() (now console.Source) {
	s.change(func(is *console.Source) { now = *is })
	return now
}

// A source is asked every five minutes, and at the next look while it doesn't answer; what it said before is kept meanwhile. One that can't
// be read isn't asked. After a slow answer it has a pause.
func TestLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, began := 0, time.Now()
		var away, unread error
		slow := time.Duration(0)
		s := &Source{change: console.New(console.Options{}).AddSource(console.Source{Role: console.RoleMember}), every: memberEvery}
		s.read = func(context.Context) error {
			time.Sleep(slow) //nolint:forbidigo // on the clock of synctest
			return unread
		}
		s.asks = func(ctx context.Context) *doctor.Facts {
			asked++
			if until, ends := ctx.Deadline(); !ends || time.Until(until) != checkUpPatience {
				t.Errorf("it may take until %s", until)
			}
			return &doctor.Facts{Now: time.Now(), Cluster: &doctor.Server{Err: away}}
		}
		after := func(d time.Duration, state console.State, times int, at time.Duration) {
			t.Helper()
			time.Sleep(d) //nolint:forbidigo // on the clock of synctest
			if pause := s.look(t.Context()); pause != max(memberEvery, 10*slow) {
				t.Errorf("the next look is in %s", pause)
			}
			if is := s.is(); is.State != state || asked != times || !is.Asked.Now.Equal(began.Add(at)) {
				t.Errorf("after %s it is %s and was asked %d times, want %d, and has what it said at %s, want %s", time.Since(began), is.State, asked, times, is.Asked.Now.Sub(began), at)
			}
		}
		after(0, console.Live, 1, 0)
		after(4*time.Minute, console.Live, 1, 0)
		after(time.Minute, console.Live, 2, 5*time.Minute)
		away = errors.New("connection refused")
		after(5*time.Minute, console.Live, 3, 5*time.Minute)
		after(memberEvery, console.Live, 4, 5*time.Minute)
		unread = away
		after(memberEvery, console.Away, 4, 5*time.Minute)
		away, unread = nil, nil
		after(memberEvery, console.Live, 5, 10*time.Minute+3*memberEvery)
		slow = 20 * time.Second
		after(memberEvery, console.Live, 5, 10*time.Minute+3*memberEvery)
	})
}

// Check-ups only read: no Secret, and nothing that has to be created to be asked. The API server serves ConfigMaps.
func TestCheckUpsOnlyRead(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || strings.Contains(r.URL.Path, "secret") {
			t.Errorf("the request is %s %s", r.Method, r.URL)
		}
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
	}))
	defer server.Close()
	config := &rest.Config{Host: server.URL}
	page := console.New(console.Options{})
	m, err := Member(config, "bj", "", page)
	if err != nil {
		t.Fatal(err)
	}
	h, err := Hub(config, "hub", "", page)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []*Source{m, h} {
		if s.checkUp(t.Context()); s.asked.IsZero() {
			t.Fatal("it can't be reached")
		}
	}
	if f := m.is().Asked; f.Cluster.Version != "v1.36.0" || f.ClusterDNS.Corefile == "" || f.NodeLocalDNS.Corefile != "" || f.NodeLocalDNS.Err != nil {
		t.Errorf("of the member, the doctor knows %+v", f)
	}
	if f := h.is().Asked; f.Cluster != nil || f.Hub.Version != "v1.36.0" || len(f.Hub.CRDs) == 0 {
		t.Errorf("of the hub, the doctor knows %+v", f)
	}
}
