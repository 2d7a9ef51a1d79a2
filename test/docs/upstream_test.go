package docs

import (
	"errors"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"

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
	t.Run("with shed, a server that is told to end answers nothing over UDP", func(t *testing.T) {
		text, health := strings.Replace(faults[0].text, "5s", "5m", 1), "127.0.0.1:"+freeport.For(t)
		port := freeport.For(t)
		text = strings.Replace(text, ".:5300 {", ".:"+port+" {\n    bind 127.0.0.1", 1)
		text = strings.Replace(text, "health {", "health "+health+" {", 1)
		s := startStoppable(t, binary(t, "coredns"), text, port)
		ask := func(network string) error {
			client := &dns.Client{Net: network, Timeout: time.Second}
			_, _, err := client.Exchange(new(dns.Msg).SetQuestion("a.example.", dns.TypeA), net.JoinHostPort("127.0.0.1", port))
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
		r, err := http.Get("http://" + health + "/health")
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		if r.StatusCode != http.StatusOK {
			t.Errorf("health says %s", r.Status)
		}
	})
}
