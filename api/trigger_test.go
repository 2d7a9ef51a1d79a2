package api

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

func TestRecentTriggerTime(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name, stated    string
		states, measure bool
	}{
		{"none", "", false, false},
		{"garbage", "yesterday", false, false},
		{"a second ago", "2026-01-01T11:59:59Z", true, true},
		{"a fraction of a second ago, elsewhere", "2026-01-01T13:59:59.999999999+02:00", true, true},
		{"now", "2026-01-01T12:00:00Z", true, true},
		{"a clock that is ahead", "2026-01-01T12:00:00.1Z", true, false},
		{"the oldest that is measured", "2026-01-01T11:50:00Z", true, true},
		{"older", "2026-01-01T11:49:59Z", true, false},
		{"absurd", "0001-01-01T00:00:00Z", true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := map[string]string{corev1.EndpointsLastChangeTriggerTime: c.stated}
			_, states := TriggerTime(a)
			_, measure := RecentTriggerTime(a, now)
			if states != c.states || measure != c.measure {
				t.Errorf("states a time: %t, want %t; to be measured: %t, want %t", states, c.states, measure, c.measure)
			}
		})
	}
}
