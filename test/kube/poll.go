package kube

import (
	"context"
	"testing"
	"time"

	"github.com/clusterset/clusterset/test/poll"
)

// Patience is how long tests wait for what should happen soon. It is far longer than anything takes, because the machine may be busy with
// other packages: no test may fail because a machine is slow.
const Patience = 2 * time.Minute

// Eventually calls f until it returns nil, and fails the test with f's last error if that has not happened within [Patience]. f should read the
// current state and describe what is wrong with it. Eventually doesn't interrupt a call, so f should bound its own waits, at least with
// t.Context().
func Eventually(t testing.TB, f func() error) {
	t.Helper()
	EventuallyWithin(t, Patience, f)
}

// EventuallyWithin is [Eventually] for what by its nature takes longer.
func EventuallyWithin(t testing.TB, within time.Duration, f func() error) {
	t.Helper()
	// Not t.Context(), which has ended by the time a t.Cleanup calls this.
	if err := poll.Within(context.Background(), within, func(context.Context) error { return f() }); err != nil {
		t.Fatal(err)
	}
}
