package kube

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// pollInterval is short enough that polling adds little to a test, and long
// enough to leave two cores to the servers.
const pollInterval = 50 * time.Millisecond

// Eventually calls f until it returns nil, and fails the test with f's last
// error if that has not happened within the given time. f should read the
// current state and describe what is wrong with it. Eventually doesn't
// interrupt a call, so f should bound its own waits, at least with t.Context().
func Eventually(t testing.TB, within time.Duration, f func() error) {
	t.Helper()
	// Not t.Context(): it has ended when a t.Cleanup calls us.
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	if err := poll(ctx, pollInterval, func(context.Context) error { return f() }); err != nil {
		t.Fatalf("not so within %s: %v", within, err)
	}
}

// poll calls f until it returns nil or ctx ends; then it returns f's last error.
func poll(ctx context.Context, interval time.Duration, f func(context.Context) error) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var last error
	for {
		select {
		case <-ctx.Done():
			if last == nil {
				return context.Cause(ctx)
			}
			return fmt.Errorf("%w: %w", context.Cause(ctx), last)
		case <-timer.C:
		}
		err := f(ctx)
		if err == nil {
			return nil
		}
		// An error that only reports the timeout would hide the reason.
		if ctx.Err() == nil || last == nil {
			last = err
		}
		timer.Reset(interval)
	}
}
