package connectivity

import (
	"context"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/clusterset/clusterset/internal/beacon"
)

func TestAnswers(t *testing.T) {
	pods := []netip.Addr{netip.MustParseAddr("10.1.0.6"), netip.MustParseAddr("10.1.0.5")}
	for _, tc := range []struct {
		name   string
		ask    Ask
		dns    error
		dialed map[string]error
		want   Outcome
		at     string
	}{
		{name: "every address answers", ask: Ask{Host: "web.", Connect: true}, want: Works},
		{name: "one address doesn't", ask: Ask{Host: "web.", Connect: true}, dialed: map[string]error{"10.1.0.6:8080": beacon.ErrNoAnswer}, want: NoAnswer, at: "10.1.0.6:8080"},
		{name: "refused", ask: Ask{Address: "10.1.0.5", Connect: true}, dialed: map[string]error{"10.1.0.5:8080": beacon.ErrRefused}, want: NoAnswer, at: "10.1.0.5:8080"},
		{name: "another cluster's", ask: Ask{Address: "10.1.0.5", Connect: true}, dialed: map[string]error{"10.1.0.5:8080": beacon.ErrWrongCluster}, want: WrongServer, at: "10.1.0.5:8080"},
		{name: "only a name", ask: Ask{Host: "web."}, dialed: map[string]error{"10.1.0.5:8080": beacon.ErrNoAnswer}, want: Works},
		{name: "another address", ask: Ask{Host: "web.", Want: "10.9.9.9"}, want: OtherAnswer},
		{name: "no such name", ask: Ask{Host: "web."}, dns: &net.DNSError{IsNotFound: true}, want: Unresolved},
		{name: "our own time limit", ask: Ask{Host: "web."}, dns: context.DeadlineExceeded, want: Unresolved},
	} {
		look := func(context.Context, string, string) ([]netip.Addr, error) { return pods, tc.dns }
		dial := func(_ context.Context, at netip.AddrPort, _ string) error { return tc.dialed[at.String()] }
		if a := answerAll(t.Context(), []Ask{tc.ask}, 0, look, dial)[0]; a.Outcome != tc.want || a.At != tc.at {
			t.Errorf("%s: %s at %q; want %s at %q", tc.name, a.Outcome, a.At, tc.want, tc.at)
		}
	}
}

// What fails is tried again until it works or the time is over, and what works isn't.
func TestAnswersArePatient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		tries := map[string]int{}
		dial := func(_ context.Context, at netip.AddrPort, _ string) error {
			tries[at.Addr().String()]++
			if at.Addr() == netip.MustParseAddr("10.1.0.1") || at.Addr() == netip.MustParseAddr("10.1.0.2") && time.Since(began) > 4*time.Second {
				return nil
			}
			return beacon.ErrNoAnswer
		}
		var answers []Answer
		for _, address := range []string{"10.1.0.1", "10.1.0.2", "10.1.0.3"} {
			answers = append(answers, answerAll(t.Context(), []Ask{{Address: address, Connect: true}}, 10*time.Second, nil, dial)...)
			began = time.Now()
		}
		if answers[0].Outcome != Works || answers[1].Outcome != Works || answers[2].Outcome != NoAnswer {
			t.Errorf("%+v", answers)
		}
		if tries["10.1.0.1"] != 1 || tries["10.1.0.2"] != 6 || tries["10.1.0.3"] != 11 {
			t.Errorf("tries: %v", tries)
		}
	})
}
