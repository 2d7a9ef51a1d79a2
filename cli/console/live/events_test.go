package live

import (
	"context"
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
	hub := NewSources(console.New(console.Options{})).add(console.Source{Role: console.RoleHub, Context: "h"})
	hub.cluster, hub.controllers = &objects.Cluster{Client: c, What: "hub"}, []string{"clusterset-hub"}
	got, err := hub.events(t.Context())
	want := console.Happened{ID: "1", Time: last, Count: 3, Context: "h", What: "MemberCluster", Name: "lyon", Reason: "HeartbeatMissed", Message: "silent", Warning: true}
	if err != nil || len(got) != 1 || got[0] != want {
		t.Errorf("got %+v, %v", got, err)
	}
	more = "next"
	if got, err := hub.events(t.Context()); len(got) != 1 || err == nil || !strings.Contains(err.Error(), "more than 5000 of clusterset-hub") {
		t.Errorf("got %d, %v", len(got), err)
	}
}
