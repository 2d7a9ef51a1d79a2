//go:build amd64 || arm64

package main

import (
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterset/clusterset/test/freeport"
	"github.com/clusterset/clusterset/test/kube"
)

// shape is a server with several sockets at one address, or sockets whose number or address changes by reloads.
type shape struct {
	name  string
	steps []step
	// forbidden is what the system refuses; see forbid.
	forbidden string
}

// step is a Corefile that a server gets. A Corefile that can't be loaded leaves everything as it was.
type step struct {
	corefile string // PORT and OBJECTS are filled in
	fails    bool
	// on are the addresses at which the gauge is 1 from then on. All queries are answered there on the express path if there is one.
	on []string
	// off are those at which it is 0.
	off []string
}

const (
	oursAt  = "clusterset.local:PORT {\n    clusterset {\n        manifests OBJECTS\n        startup_timeout 30s\n    }\n    %s\n}\n"
	otherAt = "example.org:PORT {\n    erratic {\n        drop 0\n    }\n    %s\n}\n"
)

func ours(more string) string  { return fmt.Sprintf(oursAt, more) }
func other(more string) string { return fmt.Sprintf(otherAt, more) }

var shapes = []shape{
	{name: "several sockets because of another block", steps: []step{
		{corefile: other("bind 127.0.0.1\n    multisocket 4") + ours("bind 127.0.0.1"), on: []string{"127.0.0.1:PORT"}},
		{corefile: other("bind 127.0.0.1\n    multisocket 4") + strings.Replace(ours("bind 127.0.0.1"), "startup_timeout", "express off\n        startup_timeout", 1), off: []string{"127.0.0.1:PORT"}},
	}},
	{name: "several sockets for our block only", steps: []step{
		{corefile: ours("bind 127.0.0.1\n    multisocket 4") + other("bind 127.0.0.1"), on: []string{"127.0.0.1:PORT"}},
		{corefile: ours("bind 127.0.0.1\n    multisocket 4\n    minimal") + other("bind 127.0.0.1"), off: []string{"127.0.0.1:PORT"}},
	}},
	{name: "more and fewer sockets", steps: []step{
		{corefile: ours("bind 127.0.0.1\n    multisocket 1"), on: []string{"127.0.0.1:PORT"}},
		{corefile: ours("bind 127.0.0.1\n    multisocket 4"), on: []string{"127.0.0.1:PORT"}},
		{corefile: ours("bind 127.0.0.1\n    multisocket 2"), on: []string{"127.0.0.1:PORT"}},
		{corefile: ours("bind 127.0.0.1"), on: []string{"127.0.0.1:PORT"}},
	}},
	{name: "off and on again with other sockets", steps: []step{
		{corefile: ours("bind 127.0.0.1"), on: []string{"127.0.0.1:PORT"}},
		{corefile: ours("bind 127.0.0.1\n    minimal"), off: []string{"127.0.0.1:PORT"}},
		{corefile: ours("bind 127.0.0.1\n    minimal\n    multisocket 4"), off: []string{"127.0.0.1:PORT"}},
		{corefile: ours("bind 127.0.0.1\n    multisocket 3"), on: []string{"127.0.0.1:PORT"}},
	}},
	{name: "all addresses in every spelling", steps: []step{
		{corefile: ours(""), on: []string{":PORT"}},
		{corefile: ours("bind 0.0.0.0"), on: []string{"0.0.0.0:PORT"}},
		{corefile: ours("bind ::"), on: []string{"[::]:PORT"}},
		{corefile: ours("bind 127.0.0.1"), on: []string{"127.0.0.1:PORT"}},
		{corefile: ours("bind ::0\n    multisocket 2"), on: []string{"[::]:PORT"}},
	}},
	{name: "two spellings at once", steps: []step{
		{corefile: ours("bind 0.0.0.0") + ours("bind ::"), on: []string{"0.0.0.0:PORT", "[::]:PORT"}},
		{corefile: ours("bind 0.0.0.0\n    multisocket 3") + ours("bind ::\n    multisocket 2"), on: []string{"0.0.0.0:PORT", "[::]:PORT"}},
	}},
	{name: "an invalid Corefile and then another spelling", steps: []step{
		{corefile: ours(""), on: []string{":PORT"}},
		{corefile: ours("") + strings.ReplaceAll(other("bind 192.0.2.1"), "PORT", "1"), fails: true, on: []string{":PORT"}},
		{corefile: ours("bind 0.0.0.0"), on: []string{"0.0.0.0:PORT"}},
		{corefile: ours("multisocket 3\n    bind 0.0.0.0\n    minimal") + other("bind 192.0.2.1"), fails: true, on: []string{"0.0.0.0:PORT"}},
		{corefile: ours("bind ::") + ours("bind 192.0.2.1"), fails: true, on: []string{"0.0.0.0:PORT"}},
		{corefile: ours("bind ::"), on: []string{"[::]:PORT"}},
	}},
	{name: "a server that goes", steps: []step{
		{corefile: ours("bind 127.0.0.1 127.0.0.2"), on: []string{"127.0.0.1:PORT", "127.0.0.2:PORT"}},
		{corefile: ours("bind 127.0.0.1"), on: []string{"127.0.0.1:PORT"}},
		{corefile: strings.Replace(other("bind 127.0.0.1"), "example.org", ".", 1)},
	}},
	{name: "a kernel without BPF programs for groups of sockets", forbidden: "BPF", steps: []step{
		{corefile: ours("bind 127.0.0.1"), on: []string{"127.0.0.1:PORT"}},
		{corefile: ours("bind 127.0.0.1\n    minimal"), off: []string{"127.0.0.1:PORT"}},
		{corefile: ours("bind 127.0.0.1\n    multisocket 2"), on: []string{"127.0.0.1:PORT"}},
	}},
}

// TestExpressAnswersEverythingInEveryShape counts who answers. However CoreDNS's sockets share an address, with each other or with those of
// before, the express path answers all queries that it can, if the gauge says that it is on, and none if it doesn't.
func TestExpressAnswersEverythingInEveryShape(t *testing.T) {
	for _, c := range shapes {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv(withoutCall, c.forbidden)
			s := newShaped(t, freeport.For(t), c.steps[0].corefile)
			for i, step := range c.steps {
				switch {
				case i > 0 && step.fails:
					s.failToReload(t, s.text(step.corefile))
				case i > 0:
					s.reload(t, s.text(step.corefile))
				}
				s.expectGauge(t, step)
				s.expectAnswers(t, 400, len(step.on) > 0)
			}
		})
	}
}

// TestExpressOfTwoProcesses runs two servers at one address, as a rollout with hostNetwork and maxSurge does, and ends one of them.
func TestExpressOfTwoProcesses(t *testing.T) {
	port := freeport.For(t)
	corefile := ours("bind 0.0.0.0")
	first := newShaped(t, port, corefile)
	first.expectAnswers(t, 100, true)
	second := newShaped(t, port, corefile)
	step := step{on: []string{"0.0.0.0:PORT"}}
	second.expectGauge(t, step)

	before := first.answers(t) + second.answers(t)
	const n = 400
	first.ask(t, n)
	kube.Eventually(t, func() error {
		if got := first.answers(t) + second.answers(t) - before; got != n {
			return fmt.Errorf("the express paths of both answered %d queries of %d", got, n)
		}
		return nil
	})
	if code := first.Stop(soon); code != 0 {
		t.Errorf("after SIGTERM: exit code %d", code)
	}
	second.expectAnswers(t, n, true)
}

// shaped is a server at all or some addresses of a port.
type shaped struct {
	*coreDNS
	port, metrics, objects string
}

func newShaped(t *testing.T, port, corefile string) *shaped {
	t.Helper()
	s := &shaped{port: port, metrics: freeport.For(t), objects: t.TempDir()}
	if err := os.WriteFile(filepath.Join(s.objects, "objects.yaml"), []byte(expressObjects), 0o600); err != nil {
		t.Fatal(err)
	}
	s.coreDNS = startCoreDNS(t, s.text(corefile))
	kube.Eventually(t, func() error { // another process may have the same address
		if !strings.Contains(s.log.String(), "CoreDNS-") {
			return fmt.Errorf("it hasn't started:\n%s", s.log)
		}
		return s.askOne("udp")
	})
	return s
}

func (s *shaped) text(corefile string) string {
	corefile = strings.NewReplacer("PORT", s.port, "OBJECTS", s.objects).Replace(corefile)
	return strings.ReplaceAll(corefile, "    clusterset {", "    prometheus 127.0.0.1:"+s.metrics+"\n    clusterset {") +
		"metrics.test:" + s.port + " {\n    bind 127.0.0.9\n    prometheus 127.0.0.1:" + s.metrics + "\n}\n" // whatever else there is
}

func (s *shaped) expectGauge(t *testing.T, step step) {
	t.Helper()
	want := map[string]float64{}
	for value, addrs := range map[float64][]string{1: step.on, 0: step.off} {
		for _, addr := range addrs {
			want["dns://"+strings.ReplaceAll(addr, "PORT", s.port)] = value
		}
	}
	kube.Eventually(t, func() error {
		if got := s.series(t, "coredns_clusterset_express_enabled"); !maps.Equal(got, want) {
			return fmt.Errorf("express_enabled is %v, want %v", got, want)
		}
		return nil
	})
}

// series returns the values of a metric by server.
func (s *shaped) series(t *testing.T, name string) map[string]float64 {
	t.Helper()
	found := map[string]float64{}
	for line := range strings.Lines(metricsText(t, s.metrics)) {
		labels, isIt := strings.CutPrefix(line, name+`{server="`)
		if server, value, ok := strings.Cut(strings.TrimSpace(labels), `"} `); isIt && ok {
			n, err := strconv.ParseFloat(value, 64)
			if err != nil {
				t.Fatal(err)
			}
			found[server] = n
		}
	}
	return found
}

// answers returns how many queries the express path has answered.
func (s *shaped) answers(t *testing.T) int {
	t.Helper()
	sum := 0.0
	for _, n := range s.series(t, "coredns_clusterset_express_answers_total") {
		sum += n
	}
	return int(sum)
}

// expectAnswers asks n times. All queries are answered, on the express path or else none on it.
func (s *shaped) expectAnswers(t *testing.T, n int, express bool) {
	t.Helper()
	before := s.answers(t)
	s.ask(t, n)
	want := 0
	if express {
		want = n
	}
	kube.Eventually(t, func() error {
		if got := s.answers(t) - before; got != want {
			return fmt.Errorf("the express path answered %d queries of %d, want %d\n%s", got, n, want, s.log)
		}
		return nil
	})
}

// ask sends n queries, over UDP and TCP by turns, each from a new port.
func (s *shaped) ask(t *testing.T, n int) {
	t.Helper()
	for i := range n {
		if err := s.askOne([]string{"udp", "tcp"}[i%2]); err != nil {
			t.Fatalf("query %d: %v\n%s", i, err, s.log)
		}
	}
}

func (s *shaped) askOne(network string) error {
	conn, err := net.Dial(network, "127.0.0.1:"+s.port)
	if err != nil {
		return err
	}
	defer conn.Close()
	m, _, err := (&dns.Client{Timeout: 5 * time.Second}).ExchangeWithConn(new(dns.Msg).SetQuestion("web.test.svc.clusterset.local.", dns.TypeA), &dns.Conn{Conn: conn})
	if err == nil && len(m.Answer) != 1 {
		err = fmt.Errorf("got\n%v", m)
	}
	return err
}
