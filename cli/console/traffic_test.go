package console

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"
)

func TestTrafficOf(t *testing.T) {
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	before := &Counted{At: began, Answers: map[string]map[string]float64{"a": {"zone": 10}, "restarted": {"zone": 1000}, "gone": {"zone": 5}}}
	now := &Counted{
		At: began.Add(10 * time.Second), Unread: []string{"away: it doesn't answer"},
		Answers: map[string]map[string]float64{"a": {"zone": 40, "any": 10}, "restarted": {"zone": 7}, "new": {"region": 3}},
	}
	for name, c := range map[string]struct {
		before *Counted
		want   Traffic
	}{
		"first": {nil, Traffic{Tiers: []TierTraffic{{"any", 10, 0}, {"region", 3, 0}, {"zone", 47, 0}}}},
		"again": {before, Traffic{Seconds: 10, Tiers: []TierTraffic{{"any", 10, 1}, {"region", 3, 0}, {"zone", 47, 3}}}},
	} {
		t.Run(name, func(t *testing.T) {
			c.want.Servers, c.want.Unread = 3, now.Unread
			if got := trafficOf(now, c.before); !reflect.DeepEqual(*got, c.want) {
				t.Errorf("got %+v, want %+v", *got, c.want)
			}
		})
	}
}

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
		q, err := parseQuery("context=beijing")
		if err != nil {
			t.Fatal(err)
		}
		if got, err := s.traffic(t.Context(), q); err != nil || got == nil {
			t.Fatalf("got %v, %v", got, err)
		}
	}
	if reads != 1 {
		t.Errorf("the metrics were read %d times, want once", reads)
	}
	for _, name := range []string{"", "context=away"} {
		q, err := parseQuery(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.traffic(t.Context(), q); err == nil {
			t.Errorf("%q: want an error", name)
		}
	}
}
