package importer

import (
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

// Rule D5 of docs/spec/data-path.md.
func TestReturning(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Unix(1_700_000_000, 0))
	r := newReturning(clock)
	is := func(phase clustersetv1alpha1.MemberClusterPhase, want time.Duration) {
		t.Helper()
		r.note("b", phase)
		if got := r.left("b"); got != want {
			t.Errorf("%s: has to wait %s, want %s", phase, got, want)
		}
	}
	pass := func(d time.Duration) { clock.SetTime(clock.Now().Add(d)) }

	is(clustersetv1alpha1.MemberReady, 0) // the phase found at the start
	is(clustersetv1alpha1.MemberSuspect, 0)
	is(clustersetv1alpha1.MemberExpired, 0)
	is(clustersetv1alpha1.MemberReady, 10*time.Second)
	pass(4 * time.Second)
	is(clustersetv1alpha1.MemberReady, 6*time.Second)
	pass(6 * time.Second)
	is(clustersetv1alpha1.MemberReady, 0)
	for _, want := range []time.Duration{20 * time.Second, 40 * time.Second, 80 * time.Second, 160 * time.Second, 5 * time.Minute, 5 * time.Minute} {
		is(clustersetv1alpha1.MemberSuspect, 0)
		is(clustersetv1alpha1.MemberReady, want)
	}
	pass(steadyAfter)
	is(clustersetv1alpha1.MemberSuspect, 0)
	is(clustersetv1alpha1.MemberReady, 10*time.Second)
	is("", 10*time.Second) // a member without a phase counts as ready, because the hub may have lost the phase
	r.forget("b")
	is(clustersetv1alpha1.MemberReady, 0)
	r.forget("b")
	is(clustersetv1alpha1.MemberSuspect, 0) // the phase found at the start
	is(clustersetv1alpha1.MemberReady, 10*time.Second)
}
