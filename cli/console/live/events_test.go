package live

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/clusterset/clusterset/cli/console"
	"github.com/clusterset/clusterset/cli/objects"
	"github.com/clusterset/clusterset/internal/connect"
)

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
	hub := &objects.Cluster{Client: c, What: "hub"}
	got, err := eventsOf(t.Context(), hub, console.Source{Context: "h"}, ofHub)
	want := console.Happened{ID: "1", Time: last, Count: 3, Context: "h", What: "MemberCluster", Name: "lyon", Reason: "HeartbeatMissed", Message: "silent", Warning: true}
	if err != nil || len(got) != 1 || got[0] != want {
		t.Errorf("got %+v, %v", got, err)
	}
	more = "next"
	if got, err := eventsOf(t.Context(), hub, console.Source{}, ofHub); len(got) != 1 || err == nil || !strings.Contains(err.Error(), "more than 5000 of clusterset-hub") {
		t.Errorf("got %d, %v", len(got), err)
	}
}

// A hub and a member of one context are two sources: what can't be read of one is said for as long as that is so, whatever the other answers.
func TestEventsOfOneContext(t *testing.T) {
	c := fake.NewClientBuilder().WithScheme(connect.NewScheme()).WithInterceptorFuncs(interceptor.Funcs{
		List: func(_ context.Context, _ client.WithWatch, _ client.ObjectList, options ...client.ListOption) error {
			if o := (&client.ListOptions{}).ApplyOptions(options); o.FieldSelector.String() != "reportingController=clusterset-hub" {
				return errors.New("they are forbidden")
			}
			return nil
		},
	}).Build()
	s := console.New(console.Options{})
	all := NewSources(s)
	hub := all.add(console.Source{Role: console.RoleHub, Context: "kind"})
	member := all.add(console.Source{Role: console.RoleMember, Context: "kind", Cluster: "lyon"})
	var before []byte
	for range 3 {
		hub.tell(t.Context(), &objects.Cluster{Client: c, What: "hub"}, ofHub)
		member.tell(t.Context(), &objects.Cluster{Client: c, What: "cluster"}, ofMember)
		hub.tell(t.Context(), &objects.Cluster{Client: c, What: "hub"}, ofHub)
		h := history(t, s)
		if !bytes.Contains(h, []byte(`"unread":["member kind: `)) || !bytes.Contains(h, []byte("they are forbidden")) {
			t.Fatalf("it has %s", h)
		}
		if before != nil && !bytes.Equal(h, before) {
			t.Errorf("without news, it was %s and is %s", before, h)
		}
		before = h
	}
}

// history returns what the console answers at /api/history.
func history(t *testing.T, s *console.Server) []byte {
	t.Helper()
	pages := s.Handler("127.0.0.1:1")
	get := func(path string, cookies []*http.Cookie) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:1"+path, http.NoBody)
		for _, c := range cookies {
			r.AddCookie(c)
		}
		w := httptest.NewRecorder()
		pages.ServeHTTP(w, r)
		return w
	}
	w := get("/api/history", get("/?token="+s.Token(), nil).Result().Cookies())
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	return w.Body.Bytes()
}
