package docs

import (
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterset/clusterset/test/corefile"
	"github.com/clusterset/clusterset/test/freeport"
	"github.com/clusterset/clusterset/test/kube"
)

// TestUpstreamFaults reproduces the faults of docs/upstream.md. If it fails, a fault has been fixed upstream, and our workaround
// can be removed.
func TestUpstreamFaults(t *testing.T) {
	faults := blocksOf(t, "conf")
	if len(faults) != 1 {
		t.Fatalf("%d faults are described, and one is tested", len(faults))
	}
	// With shed, a server that is told to end answers nothing over UDP.
	text, health := strings.Replace(faults[0].text, "5s", "5m", 1), "127.0.0.1:"+freeport.For(t)
	s := &server{Local: &corefile.Local{Port: freeport.For(t)}}
	text = strings.Replace(text, ".:5300 {", ".:"+s.Port+" {\n    bind 127.0.0.1", 1)
	s.Text = strings.Replace(text, "health {", "health "+health+" {", 1)
	s.run(t)
	ask := func(network string) error {
		client := &dns.Client{Net: network, Timeout: time.Second}
		_, _, err := client.Exchange(new(dns.Msg).SetQuestion("a.example.", dns.TypeA), "127.0.0.1:"+s.Port)
		return err
	}
	kube.Eventually(t, func() error { return ask("udp") })
	if err := s.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	kube.Eventually(t, func() error {
		if !strings.Contains(s.log.String(), "Going into lameduck mode") {
			return errors.New("no word of lameduck")
		}
		return nil
	})
	if err := ask("udp"); err == nil {
		t.Error("UDP is answered: the fault is gone")
	}
	if err := ask("tcp"); err != nil {
		t.Errorf("TCP is not answered either: %v", err)
	}
	if err := corefile.Ready(t.Context(), "http://"+health+"/health"); err != nil {
		t.Error(err)
	}
}
