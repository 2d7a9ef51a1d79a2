package kube

import (
	"context"
	"strings"
	"sync"
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

// Throughout calls ask over and over while something happens. The function that it returns calls it one last time, stops, and fails the test if
// it ever returned an error. It is called at the end of the test at the latest.
func Throughout(t testing.TB, ask func() error) (stop func()) {
	t.Helper()
	stopping, done := make(chan struct{}), make(chan struct{})
	var wrong []string
	n := 0
	go func() {
		defer close(done)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for last := false; !last; n++ {
			select {
			case <-stopping:
				last = true
			case <-tick.C:
			}
			if err := ask(); err != nil && len(wrong) <= 20 {
				wrong = append(wrong, err.Error())
			}
		}
	}()
	stop = sync.OnceFunc(func() {
		t.Helper()
		close(stopping)
		<-done
		if len(wrong) > 0 {
			t.Errorf("asked %d times:\n%s", n, strings.Join(wrong, "\n"))
		}
	})
	t.Cleanup(stop)
	return stop
}
