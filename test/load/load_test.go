// Package load has the tests that put a real coredns under load and overload it: while objects change and the server reloads
// (TestLoad), with far more packets than it can answer (TestFlood), with ten thousand TCP connections (TestManyConnections) and
// with clients that send queries and never read the answers (TestSlowReaders).
//
// No test asserts a speed. Each test first measures how many answers the same clients get from an idle server, and its load is
// relative to that. `make load` runs the tests for longer and prints their figures.
package load

import (
	"context"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/clusterset/clusterset/test/kube"
)

// TestLoad sends queries over UDP, TCP and TLS together, at four fifths of the maximum rate of these clients, while objects change
// a hundred times a second and the server reloads every ten seconds, or every third of a shorter test. Each answer is checked. None
// may be wrong or SERVFAIL, and none may be missing except those that the kernel dropped. Memory and goroutines stay level.
func TestLoad(t *testing.T) {
	d := lasting(t, 20*time.Second)
	c := newCluster(t)
	s := startServer(t, c, "", "")
	most := capacity(t, s)

	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	var wait sync.WaitGroup
	var changes atomic.Int64
	var reloads int
	var sampleErr error
	var samples []usage
	for writer := range 4 { // each has its own part of the services
		i := writer
		every(ctx, 40*time.Millisecond, &wait, func() {
			if err := c.change(ctx, i); err != nil {
				t.Error(err)
			}
			changes.Add(1)
			i = (i + 4) % changing
		})
	}
	every(ctx, min(10*time.Second, d/3), &wait, func() {
		_ = syscall.Kill(s.program.PID(), syscall.SIGUSR1) // it reads its Corefile again and starts new plugins
		reloads++
	})
	every(ctx, d/60, &wait, func() {
		// Errors are expected, because the metrics' listener is closed for a moment during a reload.
		u, err := s.usage(ctx)
		if err == nil {
			samples = append(samples, u)
		} else if ctx.Err() == nil {
			sampleErr = err
		}
	})
	tallies, err := s.ask(ctx, 0.8*most)
	wait.Wait()
	if err != nil {
		t.Fatal(err)
	}
	if len(samples) < 30 {
		t.Fatalf("only %d samples of the server's memory: %v", len(samples), sampleErr)
	}
	t.Logf("%s at 80 %% of %.0f queries/s; %d changes, %d reloads", d, most, changes.Load(), reloads)
	for network, got := range tallies {
		t.Logf("%s: %s", network, got)
		judge(t, network, got)
	}
	level(t, samples)
	converged(t, s, c)
}

// capacity returns how many answers a second the clients of the mix get together when they don't pause.
func capacity(t *testing.T, s *server) float64 {
	t.Helper()
	const d = 2 * time.Second
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	tallies, err := s.ask(ctx, 0)
	if err != nil {
		t.Fatal(err)
	}
	var all int
	for network, got := range tallies {
		judge(t, network, got)
		all += got.answered
	}
	return float64(all) / d.Seconds()
}

func judge(t *testing.T, network string, got tally) {
	t.Helper()
	if got.answered == 0 || got.lost > 0 || len(got.wrong) > 0 {
		t.Errorf("%s: %s; the first wrong ones: %q", network, got, got.wrong[:min(len(got.wrong), 5)])
	}
}

// level fails the test if memory, goroutines or open files grew from the middle third of the samples to the last.
func level(t *testing.T, samples []usage) {
	t.Helper()
	third := len(samples) / 3
	middle, last := samples[third:2*third], samples[2*third:]
	for _, of := range []struct {
		what  string
		value func(usage) int
		slack int // allowed growth, besides a tenth
	}{
		{"goroutines", func(u usage) int { return u.goroutines }, 50},
		{"open files", func(u usage) int { return u.files }, 20},
		{"resident memory", func(u usage) int { return u.resident }, 16 << 20},
	} {
		was, is := median(middle, of.value), median(last, of.value)
		t.Logf("%s: %d in the middle third, %d in the last", of.what, was, is)
		if is > was+was/10+of.slack {
			t.Errorf("%s grew from %d to %d", of.what, was, is)
		}
	}
}

func median(samples []usage, value func(usage) int) int {
	var values []int
	for _, s := range samples {
		values = append(values, value(s))
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// converged waits until the server answers with the generations that were written last.
func converged(t *testing.T, s *server, c *cluster) {
	t.Helper()
	asker := &client{server: s, network: "udp"}
	defer asker.hangUp()
	for i := range changing {
		q := of("changing-%d", i, exactly(changingIPs(i, int(c.generations[i].Load()))...))
		kube.Eventually(t, func() error {
			reply, err := asker.exchange(q.name)
			if err == nil {
				err = q.check(reply)
			}
			return err
		})
	}
}

// lasting returns how long a test's load lasts: a short time, or the value of the environment variable LOAD, such as 10m.
func lasting(t *testing.T, short time.Duration) time.Duration {
	t.Helper()
	text := os.Getenv("LOAD")
	if text == "" {
		return short
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		t.Fatalf("LOAD=%s: want a duration such as 10m", text)
	}
	return d
}

// every calls f at an interval until the context ends.
func every(ctx context.Context, interval time.Duration, wait *sync.WaitGroup, f func()) {
	wait.Go(func() {
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				f()
			}
		}
	})
}
