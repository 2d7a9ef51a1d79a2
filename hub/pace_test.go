package hub

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/hub/liveness"
)

// member applies a report's facts to a MemberCluster at a time, as the reconciler does.
type member struct {
	clustersetv1alpha1.MemberCluster
	paced paced
}

// says returns whether the status is written, and when to look again.
func (m *member) says(at time.Time, full bool, said clustersetv1alpha1.MemberReportSpec) (written bool, again time.Duration) {
	f := factsOf(&clustersetv1alpha1.MemberReport{Spec: said}, 7)
	f.full = full
	f, again = m.paced.pace(&m.MemberCluster, f, at)
	status := statusOf(&m.MemberCluster, liveness.Decision{Phase: clustersetv1alpha1.MemberReady, Heard: at}, f, at)
	written = !equality.Semantic.DeepEqual(status, m.Status)
	m.Status = status
	return written, again
}

// A member can report something else ten times a second. Each fact, and all together, change its MemberCluster once a minute at most. Rule C29 of
// docs/spec/control-plane.md.
func TestFlappingFactsAreTakenOnceAMinute(t *testing.T) {
	m, began, last, writes := &member{}, time.Unix(1e9, 0), time.Time{}, 0
	m.Name = "thief"
	for i := range 6000 { // ten minutes
		at := began.Add(time.Duration(i) * 100 * time.Millisecond)
		said := clustersetv1alpha1.MemberReportSpec{AgentVersion: fmt.Sprint("v", (i+1)/3), Zones: []string{fmt.Sprint("z", i/3)}[:i%2], Namespaces: new([]string{"", "AAAAAg"}[i%2])}
		if written, _ := m.says(at, (i+2)/3%2 == 1, said); written {
			if writes++; at.Sub(last) < paceEvery {
				t.Errorf("written at %s and %s", last, at)
			}
			last = at
		}
	}
	if writes != 10 {
		t.Errorf("written %d times in ten minutes", writes)
	}
}

// What a member reports at first, and a single change, are taken at once, and the last state always is, also if a write failed.
func TestAFactIsTakenInTheEnd(t *testing.T) {
	m, at := &member{}, time.Unix(1e9, 0)
	m.Name = "a"
	zones := func(want string, after time.Duration, said string, wantAgain time.Duration) {
		t.Helper()
		at = at.Add(after)
		_, again := m.says(at, false, clustersetv1alpha1.MemberReportSpec{AgentVersion: "v1", Zones: []string{said}})
		if got := fmt.Sprint(m.Status.Zones); got != want || again != wantAgain {
			t.Errorf("it reports %q: zones are %s, and it looks again after %s; want %s and %s", said, got, again, want, wantAgain)
		}
	}
	zones("[a]", 0, "a", 0)
	zones("[a]", 10*time.Second, "b", 50*time.Second)
	zones("[a]", 10*time.Second, "c", 40*time.Second)
	before := m.Status
	zones("[c]", 40*time.Second, "c", 0)
	m.Status = before // that write failed
	zones("[c]", time.Second, "c", 0)
	zones("[d]", time.Hour, "d", 0)
}
