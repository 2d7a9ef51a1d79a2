package connectivity

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/clusterset/clusterset/cli/objects"
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
		{name: "refused", ask: Ask{Address: "10.1.0.5", Connect: true}, dialed: map[string]error{"10.1.0.5:8080": beacon.ErrRefused}, want: Refused, at: "10.1.0.5:8080"},
		{name: "another cluster's", ask: Ask{Address: "10.1.0.5", Connect: true}, dialed: map[string]error{"10.1.0.5:8080": beacon.ErrWrongCluster}, want: WrongServer, at: "10.1.0.5:8080"},
		{name: "only a name", ask: Ask{Host: "web."}, dialed: map[string]error{"10.1.0.5:8080": beacon.ErrNoAnswer}, want: Works},
		{name: "another address", ask: Ask{Host: "web.", Want: "10.9.9.9"}, want: OtherAnswer},
		{name: "no such name", ask: Ask{Host: "web."}, dns: &net.DNSError{IsNotFound: true}, want: NoName},
		{name: "SERVFAIL", ask: Ask{Host: "web."}, dns: &net.DNSError{Err: "server misbehaving", IsTemporary: true}, want: DNSFails},
		{name: "silence", ask: Ask{Host: "web."}, dns: &net.DNSError{IsTimeout: true}, want: DNSSilent},
		{name: "our own time limit", ask: Ask{Host: "web."}, dns: context.DeadlineExceeded, want: DNSSilent},
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

// What a server says is what a client wants to hear, through the sockets of this machine.
func TestServerAndClient(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	go func() { _ = beacon.Serve(t.Context(), l, "beijing", "test") }()
	at := netip.MustParseAddrPort(l.Addr().String())
	dial := func(ctx context.Context, _ netip.AddrPort, cluster string) error {
		_, err := beacon.Dial(ctx, at, cluster)
		return err
	}
	for to, want := range map[string]Outcome{"beijing": Works, "shanghai": WrongServer} {
		if a := answerAll(t.Context(), []Ask{{To: to, Address: "127.0.0.1", Connect: true}}, 0, nil, dial)[0]; a.Outcome != want {
			t.Errorf("%s: %s", to, a.Outcome)
		}
	}
}

func TestAnInterruptedClientEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dial := func(context.Context, netip.AddrPort, string) error { return errors.New("cut off") }
	if a := answerAll(ctx, []Ask{{Address: "10.1.0.1", Connect: true}}, time.Hour, nil, dial)[0]; a.Outcome != NoAnswer {
		t.Error(a.Outcome)
	}
}

// Ctrl-C while a namespace is being created leaves none behind.
func TestInterruptedCreation(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	all := fake.NewClientBuilder().Build()
	through := interceptor.NewClient(all, interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
		interrupt()
		if err := c.Create(ctx, o, options...); err != nil {
			return err
		}
		return ctx.Err() // the answer of the API server doesn't reach who has gone
	}})
	test := &Test{Namespace: "probe", Clusters: []*Cluster{{Cluster: &objects.Cluster{Client: through}, Name: "beijing"}}}
	if _, err := test.Run(ctx); err == nil {
		t.Error("an interrupted test passed")
	}
	var namespaces corev1.NamespaceList
	if err := all.List(t.Context(), &namespaces); err != nil || len(namespaces.Items) != 0 {
		t.Errorf("it left %d namespaces, %v", len(namespaces.Items), err)
	}
}
