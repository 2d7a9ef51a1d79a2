package poll

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestWithinSaysWhyItGaveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		err := Within(t.Context(), time.Minute, func(ctx context.Context) error {
			if deadline, _ := ctx.Deadline(); time.Until(deadline) < 30*time.Second {
				<-ctx.Done()
				return ctx.Err() // like any call that the deadline interrupts
			}
			return errors.New("no answer")
		})
		if err == nil || err.Error() != "not so within 1m0s: no answer" {
			t.Errorf("got %v", err)
		}
	})
}

func TestUntilStopsAtOnce(t *testing.T) {
	tried := 0
	broken := errors.New("it is broken")
	err := Until(t.Context(), func(context.Context) error {
		tried++
		return Permanent(broken)
	})
	if !errors.Is(err, broken) || tried != 1 {
		t.Errorf("after %d tries: %v", tried, err)
	}

	interrupted, interrupt := context.WithCancelCause(t.Context())
	interrupt(errors.New("Ctrl-C"))
	err = Within(interrupted, time.Minute, func(context.Context) error { return broken })
	if err == nil || err.Error() != "Ctrl-C: it is broken" {
		t.Errorf("interrupted: %v", err)
	}
}
