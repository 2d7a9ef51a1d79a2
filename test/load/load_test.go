package load

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/clusterset/clusterset/test/poll"
)

// TestLoad sends queries over UDP, TCP and TLS together, at four fifths of the maximum rate of these clients, while objects change
// a hundred times a second and the server reloads every ten seconds, or every third of a shorter test. Each answer is checked. None
// may be wrong or SERVFAIL, and none may be missing except those that the kernel dropped. Memory and goroutines stay level.
func TestLoad(t *testing.T) {
	d := lasting(t, 20*time.Second)
	c := theCluster(t)
	s := startServer(t, c, "")
	most := capacity(t, s)

	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	var wait sync.WaitGroup
	var changes, reloads int
	var churnErr, sampleErr error
	var samples []usage
	wait.Go(func() { changes, churnErr = c.churn(ctx, 100) })
	every(ctx, min(10*time.Second, d/3), &wait, func() {
		s.reload()
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
	if err != nil || churnErr != nil {
		t.Fatalf("asking: %v, changing objects: %v", err, churnErr)
	}
	if len(samples) < 30 {
		t.Fatalf("only %d samples of the server's memory: %v", len(samples), sampleErr)
	}
	t.Logf("%s at 80 %% of %.0f queries/s; %d changes, %d reloads", d, most, changes, reloads)
	for _, over := range []transport{overUDP, overTCP, overTLS} {
		t.Logf("%s: %s", over, tallies[over])
		judge(t, over, tallies[over])
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
	for over, tally := range tallies {
		judge(t, over, tally)
		all += tally.answered
	}
	return float64(all) / d.Seconds()
}

func judge(t *testing.T, over transport, got tally) {
	t.Helper()
	if got.answered == 0 || got.servfail > 0 || got.lost > 0 || len(got.wrong) > 0 {
		t.Errorf("%s: %s; the first wrong ones: %q", over, got, got.wrong[:min(len(got.wrong), 5)])
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
		{"Go's live heap", func(u usage) int { return u.live }, 4 << 20},
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
	values := make([]int, len(samples))
	for i, s := range samples {
		values[i] = value(s)
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// converged waits until the server answers with the generations that were written last.
func converged(t *testing.T, s *server, c *cluster) {
	t.Helper()
	asker := &client{server: s, over: overUDP}
	defer asker.hangUp()
	for i := range changing {
		q := of("changing-%d", i, current(c, i))
		err := poll.Within(t.Context(), time.Minute, func(context.Context) error {
			reply, err := asker.exchange(q)
			if err != nil {
				return err
			}
			return q.check(reply)
		})
		if err != nil {
			t.Errorf("%s: %v", q.name, err)
		}
	}
}
