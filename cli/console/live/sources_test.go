package live

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/console"
	"github.com/clusterset/clusterset/cli/doctor"
	"github.com/clusterset/clusterset/cli/objects"
	"github.com/clusterset/clusterset/cli/view"
	"github.com/clusterset/clusterset/internal/connect"
)

// A source is asked every five minutes, and at the next look while it doesn't answer; what it said before is kept meanwhile. One that is known
// to be away isn't asked.
func TestCheckUps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, began := 0, time.Now()
		var away error
		s := add(console.New(console.Options{}), console.Source{Role: console.RoleMember})
		s.asks = func(ctx context.Context) *doctor.Facts {
			asked++
			if until, ends := ctx.Deadline(); !ends || time.Until(until) != checkUpPatience {
				t.Errorf("it may take until %s", until)
			}
			return &doctor.Facts{Now: time.Now(), Cluster: &doctor.Server{Err: away}}
		}
		s.set(console.Live, nil, nil)
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
	m, err := NewMember(config, "bj", "", page)
	if err != nil {
		t.Fatal(err)
	}
	h, err := NewHub(config, "hub", "", page)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []*source{m.source, h.source} {
		s.set(console.Live, nil, nil)
		if s.checkUp(t.Context()); s.asked.IsZero() {
			t.Fatal("it can't be reached")
		}
	}
	if f := m.get().Asked; f.Cluster.Version != "v1.36.0" || f.ClusterDNS.Corefile == "" || f.NodeLocalDNS.Corefile != "" || f.NodeLocalDNS.Err != nil {
		t.Errorf("of the member, the doctor knows %+v", f)
	}
	if f := h.get().Asked; f.Cluster != nil || f.Hub.Version != "v1.36.0" || len(f.Hub.CRDs) == 0 {
		t.Errorf("of the hub, the doctor knows %+v", f)
	}
}

// Of an Event that happened often, the last time and the number are passed on. If there are more Events than are read, that is said.
func TestEventsOf(t *testing.T) {
	last := time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)
	more := ""
	c := fake.NewClientBuilder().WithScheme(connect.NewScheme()).WithInterceptorFuncs(interceptor.Funcs{
		List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			o := (&client.ListOptions{}).ApplyOptions(options)
			if o.FieldSelector.String() != "reportingController=clusterset-hub" || o.Limit != maxEvents {
				t.Errorf("the request is for %v, at most %d", o.FieldSelector, o.Limit)
			}
			events, _ := list.(*eventsv1.EventList)
			events.Continue = more
			events.Items = []eventsv1.Event{{
				ObjectMeta: metav1.ObjectMeta{UID: "1"}, EventTime: metav1.NewMicroTime(last.Add(-time.Minute)), Series: &eventsv1.EventSeries{Count: 3, LastObservedTime: metav1.NewMicroTime(last)},
				Regarding: corev1.ObjectReference{Kind: "MemberCluster", Name: "lyon"}, Reason: "HeartbeatMissed", Note: "silent", Type: "Warning",
			}}
			return nil
		},
	}).Build()
	hub := add(console.New(console.Options{}), console.Source{Role: console.RoleHub, Context: "h"})
	hub.cluster, hub.controllers = &objects.Cluster{Client: c, What: "hub"}, []string{"clusterset-hub"}
	got, err := hub.events(t.Context())
	want := console.Happened{ID: "1", Time: last, Count: 3, Context: "h", Warning: true, Problem: view.Problem{What: "MemberCluster", Name: "lyon", Reason: "HeartbeatMissed", Message: "silent"}}
	if err != nil || len(got) != 1 || got[0] != want {
		t.Errorf("got %+v, %v", got, err)
	}
	more = "next"
	if got, err := hub.events(t.Context()); len(got) != 1 || err == nil || !strings.Contains(err.Error(), "more than 5000 of clusterset-hub") {
		t.Errorf("got %d, %v", len(got), err)
	}
}

// Whom each cluster can't reach is passed on, as the report in which it says so, when that changes, and only then.
func TestWhatReportsSayIsPassedOn(t *testing.T) {
	h := &Hub{}
	for i, c := range []struct {
		cantReach []string
		changed   bool
	}{{[]string{"b", "c"}, true}, {[]string{"b", "c"}, false}, {[]string{"b"}, true}, {nil, true}, {nil, false}} {
		h.reach(map[string]view.Heartbeat{"a": {CantReach: c.cantReach}, "b": {Measures: true}})
		var said []string
		for _, r := range h.reports {
			said = append(said, r.(*clustersetv1alpha1.MemberReport).Spec.Unreachable...)
		}
		if h.changed.Swap(false) != c.changed || !slices.Equal(said, c.cantReach) {
			t.Errorf("%d: want %+v, it has %v", i, c, said)
		}
	}
}
