package hub

import (
	"fmt"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/hub/liveness"
)

// member applies a Lease's facts to a MemberCluster at a time, as the reconciler does.
type member struct {
	clustersetv1alpha1.MemberCluster
	told told
	full bool
}

// beat returns whether the status is written, and when to look again.
func (m *member) beat(at time.Time, annotations map[string]string) (written bool, again time.Duration) {
	lease := &coordinationv1.Lease{}
	lease.Annotations = annotations
	f := factsOf(lease, 7)
	f.full = m.full
	f, again = m.told.pace(&m.MemberCluster, f, at)
	status := statusOf(&m.MemberCluster, liveness.Decision{Phase: clustersetv1alpha1.MemberReady, Heard: at}, f, at)
	written = !equality.Semantic.DeepEqual(status, m.Status)
	m.Status = status
	return written, again
}

// A member can state something else in its Lease ten times a second. Each fact, and all together, change its MemberCluster once a minute at
// most, and less often if that goes on. Rule C29 of docs/spec/control-plane.md.
func TestFlappingFactsAreToldOnceAMinute(t *testing.T) {
	for _, c := range []struct {
		fact string
		flip func(m *member, a map[string]string, i int)
	}{
		{"zones", func(_ *member, a map[string]string, i int) { a[api.AnnotationZones] = fmt.Sprint("z", i%2) }},
		{"no zones", func(_ *member, a map[string]string, i int) { a[api.AnnotationZones] = []string{"", "z"}[i%2] }},
		{"many zones", func(_ *member, a map[string]string, i int) { a[api.AnnotationZones] = fmt.Sprint("z", i) }},
		{"version", func(_ *member, a map[string]string, i int) { a[api.AnnotationAgentVersion] = fmt.Sprint("v", i) }},
		{"a clone", func(_ *member, a map[string]string, i int) { a[api.AnnotationYields] = []string{"", "now"}[i%2] }},
		{"the cap", func(m *member, _ map[string]string, i int) { m.full = i%2 == 1 }},
		{"all in turn", func(m *member, a map[string]string, i int) {
			a[api.AnnotationZones], a[api.AnnotationAgentVersion], m.full = fmt.Sprint("z", i/3), fmt.Sprint("v", (i+1)/3), (i+2)/3%2 == 1
		}},
	} {
		t.Run(c.fact, func(t *testing.T) {
			m, began := &member{}, time.Unix(1e9, 0)
			m.Name = "thief"
			var writes []time.Duration
			for i := range 36000 { // an hour
				at := began.Add(time.Duration(i) * 100 * time.Millisecond)
				annotations := map[string]string{api.AnnotationAgentVersion: "v1", api.AnnotationZones: "a"}
				if i > 0 {
					c.flip(m, annotations, i)
				}
				if written, _ := m.beat(at, annotations); written {
					writes = append(writes, at.Sub(began))
				}
			}
			if len(writes) < 4 || len(writes) > 9 {
				t.Errorf("written %d times in an hour, at %v", len(writes), writes)
			}
			for i := range writes {
				if i > 1 && writes[i]-writes[i-1] < tellEvery { // the first says everything, the second is the first change
					t.Errorf("written at %s and %s", writes[i-1], writes[i])
				}
			}
		})
	}
}

// Whatever the pace at which a member changes what it states, it is told ever more seldom, down to once in 16 minutes. Rule C29 of
// docs/spec/control-plane.md.
func TestAPaceOfItsOwnDoesNotHelp(t *testing.T) {
	for _, every := range []time.Duration{tellEvery, 2 * time.Minute, 3 * time.Minute, 5 * time.Minute, 8 * time.Minute, tellSeldom} {
		m, began := &member{}, time.Unix(1e9, 0)
		m.Name = "thief"
		writes := 0
		for i := range int(24 * time.Hour / every) {
			digest := clustersetv1alpha1.NamespaceDigest([]string{"default", "shop"}[:1+i%2])
			annotations := map[string]string{api.AnnotationAgentVersion: "v1", api.AnnotationNamespaces: digest}
			if written, _ := m.beat(began.Add(time.Duration(i)*every), annotations); written {
				writes++
			}
		}
		if most := 5 + int(24*time.Hour/tellSeldom); writes > most {
			t.Errorf("a change every %s is told %d times a day, want %d at most", every, writes, most)
		}
	}
}

// What a member states at first, and a single change, are told at once, and the last state always is, also if a write failed.
func TestAFactIsToldInTheEnd(t *testing.T) {
	m, at := &member{}, time.Unix(1e9, 0)
	m.Name = "a"
	zones := func(want string, after time.Duration, stated string, wantAgain time.Duration) {
		t.Helper()
		at = at.Add(after)
		annotations := map[string]string{api.AnnotationAgentVersion: "v1"}
		if stated != "-" {
			annotations[api.AnnotationZones] = stated
		}
		_, again := m.beat(at, annotations)
		if got := fmt.Sprint(m.Status.Zones); got != want || again != wantAgain {
			t.Errorf("stated %q: zones are %s, and it looks again after %s; want %s and %s", stated, got, again, want, wantAgain)
		}
	}
	zones("[]", 0, "-", 0)
	zones("[a]", time.Second, "a", 0) // known a moment after the first heartbeat
	zones("[b]", time.Second, "b", 0)
	zones("[b]", 10*time.Second, "c", 50*time.Second)
	zones("[b]", 10*time.Second, "d", 40*time.Second)
	before := m.Status
	zones("[d]", 40*time.Second, "d", 0)
	m.Status = before // that write failed
	zones("[d]", time.Second, "d", 0)
	zones("[d]", 100*time.Second, "e", 19*time.Second) // it goes on
	zones("[e]", 19*time.Second, "e", 0)
	zones("[f]", time.Hour, "f", 0)
	zones("[f]", 10*time.Second, "g", 50*time.Second)
}
