package members

import (
	"testing"
	"time"
)

func TestHandover(t *testing.T) {
	made := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	const before = "2025-12-31T23:59:50Z"
	at := func(d time.Duration) string { return made.Add(d).Format(time.RFC3339) }
	for _, c := range []struct {
		name  string
		h     handover
		after time.Duration
		want  step
		again time.Duration
	}{
		{"a new account", handover{ours: true}, 0, issue, 0},
		{"nobody has come yet", handover{state: at(time.Hour) + " ", ours: true}, time.Minute, nothing, time.Hour - time.Minute},
		{"nobody has come for half of their life", handover{state: at(time.Hour) + " ", ours: true}, time.Hour, issue, 0},
		{"the first heartbeat", handover{state: at(time.Hour) + " ", ours: true, beat: at(0)}, time.Minute, finish, 0},
		{"in use, and the cluster silent for long", handover{state: used, ours: true, beat: at(0)}, 1000 * time.Hour, nothing, 0},
		// The account was deleted to revoke its tokens, and created again. The API server may accept the old tokens for a while.
		{"a new account of a known cluster", handover{ours: true, beat: before}, time.Second, nothing, settle - time.Second},
		{"when the old tokens are over", handover{ours: true, beat: before}, settle, issue, 0},
		{"the old heartbeat", handover{state: at(time.Hour) + " " + before, ours: true, beat: before}, time.Minute, nothing, time.Hour - time.Minute},
		{"a heartbeat since", handover{state: at(time.Hour) + " " + before, ours: true, beat: at(20 * time.Second)}, time.Minute, finish, 0},
		{"an account that join made or took over", handover{}, time.Minute, finish, 0},
		{"the same, later", handover{state: used}, time.Minute, nothing, 0},
		{"a process that ended while it made them", handover{state: issuing, ours: true}, time.Second, issue, 0},
		{"garbage", handover{state: "soon", ours: true}, time.Minute, issue, 0},
	} {
		c.h.made = made
		if got, again := c.h.next(made.Add(c.after)); got != c.want || again != c.again {
			t.Errorf("%s: %s, again in %s; want %s, %s", c.name, got, again, c.want, c.again)
		}
	}
}
