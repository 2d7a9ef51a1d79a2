package console

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/view"
)

func member(name string, drain bool, conditions ...metav1.Condition) runtime.Object {
	m := &clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	m.Spec.Drain, m.Status.Conditions = drain, conditions
	return m
}

// The history has Events, also when their API server has forgotten them, the conditions that no Event tells of, and what the console saw
// itself, the newest first.
func TestHistory(t *testing.T) {
	s := New(Options{})
	long := time.Date(2026, 2, 3, 4, 0, 0, 0, time.UTC)
	ready := metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: "HeartbeatMissed", Message: "no heartbeat for 40s", LastTransitionTime: metav1.NewTime(long)}
	valid := metav1.Condition{Type: "Valid", Status: metav1.ConditionTrue, Reason: "Valid", Message: "all of it is used", LastTransitionTime: metav1.NewTime(long.Add(-time.Hour))}
	s.SetRecords([]runtime.Object{member("beijing", false, ready, valid), member("lyon", false)})
	hub := s.AddSource(Source{Role: RoleHub, Context: "hub", State: Live})
	bj := s.AddSource(Source{Role: RoleMember, Context: "bj", Cluster: "beijing", State: Live})
	s.SetEvents(hub, []Happened{{ID: "1", Context: "hub", Time: long.Add(2 * time.Second), Warning: true, Problem: view.Problem{What: "MemberCluster", Name: "beijing", Reason: "HeartbeatMissed", Message: "no heartbeat for 40s"}}}, nil)
	s.SetEvents(bj, nil, errors.New("forbidden"))

	s.SetRecords([]runtime.Object{member("beijing", true, ready, valid), member("tianjin", false)})
	s.SetRecords([]runtime.Object{member("beijing", false, ready, valid), member("tianjin", false)})
	for _, err := range []string{"connection refused", ""} {
		s.ChangeSource(bj, func(from *Source) { from.State, from.Error = map[bool]State{true: Live, false: Away}[err == ""], err })
	}
	s.SetEvents(hub, nil, nil) // an hour later

	got := answer[History](t, s, "/api/history")
	var lines []string
	for _, i := range got.Items {
		lines = append(lines, fmt.Sprintf("%s %s %s", i.Name, i.Reason, i.Message))
	}
	want := []string{
		"beijing Live it answers again", "beijing Away connection refused", "beijing Undrained spec.drain was taken back",
		"beijing Drained spec.drain was set: it is used as the last resort", "lyon Removed its MemberCluster was deleted from the hub", "tianjin Joined it is on the hub",
		"beijing HeartbeatMissed no heartbeat for 40s", "beijing Valid Valid is True: all of it is used",
	}
	if !slices.Equal(lines, want) || got.Total != len(want) {
		t.Fatalf("it has %q\nwant %q", lines, want)
	}
	if len(got.Unread) != 1 || got.Unread[0] != "member bj: forbidden" {
		t.Errorf("unread are %q", got.Unread)
	}
}

// What the console remembers is bounded: the newest stay.
func TestHistoryIsBounded(t *testing.T) {
	s := New(Options{})
	hub := s.AddSource(Source{Role: RoleHub})
	start := time.Date(2026, 2, 3, 4, 0, 0, 0, time.UTC)
	for round := range 3 {
		var events []Happened
		for i := range maxHappened {
			n := round*maxHappened + i
			events = append(events, Happened{ID: fmt.Sprint(n), Time: start.Add(time.Duration(n) * time.Second), Problem: view.Problem{What: "MemberCluster", Name: "a"}})
		}
		s.SetEvents(hub, events, nil)
	}
	for i := range maxHappened + 100 {
		s.SetRecords([]runtime.Object{member("a", i%2 == 0)})
	}
	got := answer[History](t, s, "/api/history")
	if got.Total != 2*maxHappened || len(got.Items) != maxHistory {
		t.Errorf("it has %d of %d", len(got.Items), got.Total)
	}
	events, others := s.happened[hub], s.happened[itself]
	if len(events) != maxHappened || events[fmt.Sprint(3*maxHappened-1)].Name == "" || len(others) != maxHappened {
		t.Errorf("%d Events and %d others are kept", len(events), len(others))
	}
}
