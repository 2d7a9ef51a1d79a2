// Package poll waits for conditions that tests, benchmarks and the demo can't watch. It needs no testing.TB; tests use
// kube.Eventually.
package poll

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// interval is short enough that polling adds little to a test, and long enough to leave two cores to the servers.
const interval = 50 * time.Millisecond

// Until calls f until it returns nil or a [Permanent] error, or until ctx ends. It then returns why ctx has ended together
// with f's last error, which should say what is wrong with the observed state. It calls f at least once.
func Until(ctx context.Context, f func(context.Context) error) error {
	var last error
	for {
		began := time.Now()
		err := f(ctx)
		if err == nil || errors.As(err, new(permanent)) {
			return err
		}
		// An error that only reports the timeout would hide the reason.
		if ctx.Err() == nil || last == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), last)
		case <-time.After(interval + time.Since(began)): // on a busy machine what is asked has more time, too
		}
	}
}

// Within is [Until] with a time limit.
func Within(ctx context.Context, limit time.Duration, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not so within %s", limit))
	defer cancel()
	return Until(ctx, f)
}

// permanent is an error that waiting can't fix.
type permanent struct{ error }

func (p permanent) Unwrap() error { return p.error }

// Permanent marks an error as one that waiting can't fix: Until returns it at once.
func Permanent(err error) error { return permanent{err} }
