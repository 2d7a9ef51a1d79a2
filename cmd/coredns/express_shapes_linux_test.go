//go:build amd64 || arm64

package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/tools/txtar"

	"github.com/clusterset/clusterset/test/fleet"
	"github.com/clusterset/clusterset/test/freeport"
	"github.com/clusterset/clusterset/test/kube"
)

// shapeBlocks are the server blocks of the shapes.
var shapeBlocks = map[string]string{
	"ours":       "clusterset.local:DNS {\n    prometheus 127.0.0.1:METRICS\n    clusterset {\n        manifests OBJECTS\n        startup_timeout 30s\n    }\n    %s\n}\n",
	"ours-off":   "clusterset.local:DNS {\n    prometheus 127.0.0.1:METRICS\n    clusterset {\n        manifests OBJECTS\n        express off\n    }\n    %s\n}\n",
	"other":      "example.org:DNS {\n    erratic {\n        drop 0\n    }\n    %s\n}\n",
	"other-at-1": "example.org:1 {\n    erratic {\n        drop 0\n    }\n    %s\n}\n",
	"root":       ".:DNS {\n    erratic {\n        drop 0\n    }\n    %s\n}\n",
}

// shapeOf returns the Corefile of some blocks, and one more that shows the metrics whatever else there is.
func shapeOf(blocks ...string) (corefile string) {
	for _, block := range blocks {
		name, more, _ := strings.Cut(block, " ")
		corefile += fmt.Sprintf(shapeBlocks[name], strings.ReplaceAll(more, "; ", "\n    "))
	}
	return corefile + "metrics.test:DNS {\n    bind 127.0.0.9\n    prometheus 127.0.0.1:METRICS\n}\n"
}

// TestExpressAnswersEverythingInEveryShape counts who answers. However CoreDNS's sockets share an address, with each other or with those of
// before, the express path answers all queries that it can, if the gauge says that it is on, and none if it doesn't.
func TestExpressAnswersEverythingInEveryShape(t *testing.T) {
	archive, err := txtar.ParseFile("testdata/shapes.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range archive.Files {
		t.Run(f.Name, func(t *testing.T) {
			if strings.Contains(f.Name, "BPF") {
				t.Setenv(withoutCall, "BPF")
			}
			var s *shaped
			for line := range strings.Lines(string(f.Data)) {
				blocks := strings.Split(strings.TrimSpace(line), " | ")
				words, corefile := strings.Fields(blocks[0]), shapeOf(blocks[1:]...)
				switch {
				case s == nil:
					s = startShaped(t, freeport.For(t), corefile)
				case words[0] == "fails":
					s.failToReload(t, corefile)
				default:
					s.reload(t, corefile)
				}
				on := words[0] != "off"
				s.expectGauges(t, on, words[1:]...)
				expectAnswers(t, 400, on, s)
			}
		})
	}
}

// TestExpressOfTwoProcesses runs two servers at one address, as a rollout with hostNetwork and maxSurge does, and ends one of them.
func TestExpressOfTwoProcesses(t *testing.T) {
	port := freeport.For(t)
	first := startShaped(t, port, shapeOf("ours bind 0.0.0.0"))
	expectAnswers(t, 100, true, first)
	second := startShaped(t, port, shapeOf("ours bind 0.0.0.0"))
	second.expectGauges(t, true, "0.0.0.0:DNS")
	expectAnswers(t, 400, true, first, second)
	if code := first.Stop(soon); code != 0 {
		t.Errorf("after SIGTERM: exit code %d", code)
	}
	expectAnswers(t, 400, true, second)
}

// shaped is a server at all or some addresses of a port.
type shaped struct{ *expressServer }

func startShaped(t *testing.T, port, corefile string) *shaped {
	t.Helper()
	s := &shaped{startAt(t, port, corefile)}
	kube.Eventually(t, func() error { // another process may have the same address
		if !strings.Contains(s.log.String(), "CoreDNS-") {
			return fmt.Errorf("it hasn't started:\n%s", s.log)
		}
		return s.askOne("udp")
	})
	return s
}

// expectAnswers asks the servers, which share an address, n times over UDP and TCP by turns. All queries are answered, on their express paths
// or else none on these.
func expectAnswers(t *testing.T, n int, express bool, servers ...*shaped) {
	t.Helper()
	answers := func() (sum float64) {
		for _, s := range servers {
			sum += fleet.Samples(metricsText(t, s.metrics)).Sum("coredns_clusterset_express_answers_total")
		}
		return sum
	}
	want := answers()
	if express {
		want += float64(n)
	}
	for i := range n {
		if err := servers[0].askOne([]string{"udp", "tcp"}[i%2]); err != nil {
			t.Fatalf("query %d: %v\n%s", i, err, servers[0].log)
		}
	}
	kube.Eventually(t, func() error {
		if got := answers(); got != want {
			return fmt.Errorf("the express path has answered %v queries, want %v\n%s", got, want, servers[0].log)
		}
		return nil
	})
}

// askOne sends a query from a new port.
func (s *shaped) askOne(network string) error {
	m, _, err := (&dns.Client{Net: network, Timeout: 5 * time.Second}).Exchange(new(dns.Msg).SetQuestion("web.test.svc.clusterset.local.", dns.TypeA), "127.0.0.1:"+s.dns)
	if err == nil && len(m.Answer) != 1 {
		err = fmt.Errorf("got\n%v", m)
	}
	return err
}
