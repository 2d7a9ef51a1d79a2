package importer

import (
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

// Rule D5 of docs/spec/data-path.md; internal/damping has the delays.
func TestReturning(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Unix(1_700_000_000, 0))
	r := newReturning(clock)
	is := func(phase clustersetv1alpha1.MemberClusterPhase, want time.Duration) {
		t.Helper()
		r.phase("b", phase)
		if got := r.left("b"); got != want {
			t.Errorf("%s: has to wait %s, want %s", phase, got, want)
		}
	}

	is(clustersetv1alpha1.MemberReady, 0) // the phase found at the start
	is(clustersetv1alpha1.MemberSuspect, 0)
	is(clustersetv1alpha1.MemberExpired, 0)
	is(clustersetv1alpha1.MemberReady, 10*time.Second)
	is("", 10*time.Second) // a member without a phase counts as ready, because the hub may have lost the phase
	r.forget("b")
	is(clustersetv1alpha1.MemberReady, 0)
	r.forget("b")
	is(clustersetv1alpha1.MemberSuspect, 0) // the phase found at the start
	is(clustersetv1alpha1.MemberReady, 10*time.Second)
}
