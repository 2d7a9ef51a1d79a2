package kube

import (
	"context"
	"os"
	"testing"
	"time"
)

// Start launches a control plane that ends with the test. When the test fails,
// the ends of the control plane's logs are part of its output. With -short the
// test is skipped.
func Start(t testing.TB, opts ...Option) *ControlPlane {
	t.Helper()
	if testing.Short() {
		t.Skip("starts etcd and kube-apiserver")
	}
	ctx, cancel := beforeDeadline(t)
	defer cancel()
	// Progress goes past t.Log, which shows nothing before the test has ended.
	c, err := Launch(ctx, t.TempDir(), append([]Option{WithProgress(os.Stderr)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			// Before Stop, whose farewells would be all that is left at the end.
			for _, tail := range c.logs() {
				t.Log(tail)
			}
		}
		c.Stop()
	})
	return c
}

// beforeDeadline ends a little before the test binary's time is up, so that a
// cold build that does not fit into it fails with an error that says what to
// do, rather than with a panic and every goroutine's stack.
func beforeDeadline(t testing.TB) (context.Context, context.CancelFunc) {
	if d, ok := t.(interface{ Deadline() (time.Time, bool) }); ok {
		if deadline, ok := d.Deadline(); ok {
			return context.WithDeadline(t.Context(), deadline.Add(-5*time.Second))
		}
	}
	return context.WithCancel(t.Context())
}
