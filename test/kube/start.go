package kube

import (
	"context"
	"os"
	"testing"
	"time"
)

// Start launches a control plane that ends with the test. When the test fails,
// its output includes the ends of the control plane's logs. With -short the
// test is skipped.
func Start(t testing.TB, opts ...Option) *ControlPlane {
	t.Helper()
	if testing.Short() {
		t.Skip("starts etcd and kube-apiserver")
	}
	ctx, cancel := beforeDeadline(t)
	defer cancel()
	// Progress bypasses t.Log, which shows nothing before the test has ended.
	c, err := Launch(ctx, t.TempDir(), append([]Option{WithProgress(os.Stderr)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			// Before Stop, whose own log lines would otherwise fill the end.
			for _, tail := range c.logs() {
				t.Log(tail)
			}
		}
		c.Stop()
	})
	return c
}

// beforeDeadline ends shortly before the test binary's timeout, so that a cold
// build that takes longer fails with an error that says what to do, instead of
// a panic with every goroutine's stack.
func beforeDeadline(t testing.TB) (context.Context, context.CancelFunc) {
	if d, ok := t.(interface{ Deadline() (time.Time, bool) }); ok {
		if deadline, ok := d.Deadline(); ok {
			return context.WithDeadline(t.Context(), deadline.Add(-5*time.Second))
		}
	}
	return context.WithCancel(t.Context())
}
