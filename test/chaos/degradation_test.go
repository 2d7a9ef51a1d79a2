package chaos

import (
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
