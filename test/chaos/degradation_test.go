package chaos

import (
	"context"
	"strings"
	"testing"
)

// A server that never ranks a suspected cluster last gives no wrong answer, because the answers of the previous phase are allowed
// until they change. The prober must report such answers as missing, and must recognize them when a server gives them.
func TestTheProberMissesAnswersThatNeverChange(t *testing.T) {
	q := question{"a.example", "A"}
	ready, suspected, expired := answers{q: "192.0.2.1"}, answers{q: "192.0.2.2"}, answers{q: "NXDOMAIN"}
	for _, test := range []struct {
		name   string
		gives  []string
		misses string
	}{
		{"a server that follows", []string{ready[q], suspected[q]}, ""},
		{"a server that ignores Suspect", []string{ready[q]}, "1 answers haven't changed, such as dig a.example A from 192.0.2.1 to 192.0.2.2"},
		{"a server that skips Suspect", []string{ready[q], expired[q]}, "1 answers haven't changed"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := &probed{name: "xicheng", reached: map[question]int{}}
			p := &prober{servers: []*probed{s}}
			p.expect([]answers{ready}, []answers{suspected}, []answers{expired})
			for _, answer := range test.gives {
				s.judge(q, "", answer, nil)
			}
			err := p.unseen(1, -1)
			switch {
			case test.misses == "" && err != nil, test.misses != "" && (err == nil || !strings.Contains(err.Error(), test.misses)):
				t.Errorf("got %v, want %q", err, test.misses)
			}
			if bad := s.counts.bad(); bad != 0 {
				t.Errorf("%d answers were bad: %v", bad, s.counts.examples)
			}
			if err := p.unseen(1, 0); err != nil {
				t.Errorf("the victim's own server needn't follow, but: %v", err)
			}
		})
	}
}

// Slices are written one after the other, so between two stages they may hold endpoints of both; but none of neither, and not nothing.
func TestTheProberJudgesSlices(t *testing.T) {
	const here, there, gone = "http/TCP 10.200.0.8 8080", "http/TCP 10.201.0.8 8080", "http/TCP 10.202.0.8 8080"
	for _, test := range []struct {
		name          string
		before, after string
		holds         []string
		astray, owed  int
	}{
		{"as it must be", here, there, []string{here, there}, 0, 0},
		{"both for a moment", here, there, []string{here, here + ", " + there, there}, 0, 0},
		{"never follows", here, there, []string{here}, 0, 1},
		{"returns", here, there, []string{there, here}, 1, 0},
		{"nothing for a moment", here, there, []string{here, "none", there}, 1, 0},
		{"nothing, which is what follows", here, "none", []string{here, "none"}, 0, 0},
		{"another cluster's", here, there, []string{here, gone}, 1, 1},
		{"too many in the end", here, there, []string{there, here + ", " + there}, 1, 0},
		{"either, while a cluster returns", here, here + " or " + there, []string{there, here}, 0, 0},
		{"neither, while a cluster returns", here, here + " or " + there, []string{gone}, 1, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			q := question{"web.shop.svc", lastResort}
			s := &probed{name: "xicheng", reached: map[question]int{}, slices: true, excused: true}
			p := &prober{slices: []*probed{s}}
			p.expect([]answers{{q: test.before}}, []answers{{q: test.after}})
			for _, text := range test.holds {
				s.judge(q, "", text, nil)
			}
			s.judge(q, "", "", context.DeadlineExceeded) // nothing was read
			if s.counts.astray != test.astray || s.counts.bad() != test.astray || s.counts.read != len(test.holds) || len(s.owed[1]) != test.owed {
				t.Errorf("%+v and %d are owed; want %d wrong, %d owed", s.counts, len(s.owed[1]), test.astray, test.owed)
			}
		})
	}
}
