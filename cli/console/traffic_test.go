package console

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"
)

// However many pages ask, a cluster's metrics are read once in some seconds.
func TestTrafficIsReadOnceForAll(t *testing.T) {
	reads := 0
	s := New(Options{Counted: func(_ context.Context, name string) (*Counted, error) {
		reads++
		if name == "away" {
			return nil, errors.New("it doesn't answer")
		}
		return &Counted{At: time.Now()}, nil
	}})
	for range 3 {
		if got := ask(t, s, "/api/traffic?context=beijing", nil); got.Code != http.StatusOK || reads != 1 {
			t.Errorf("status %d, and the metrics were read %d times, want once", got.Code, reads)
		}
	}
	for target, want := range map[string]int{"/api/traffic": http.StatusBadRequest, "/api/traffic?context=away": http.StatusBadGateway} {
		if got := ask(t, s, target, nil); got.Code != want {
			t.Errorf("%s: status %d, want %d", target, got.Code, want)
		}
	}
}
