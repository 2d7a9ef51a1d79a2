package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterset/clusterset/test/freeport"
	"github.com/clusterset/clusterset/test/kube"
)

// betweenQueries is how long who asks over and over waits each time, to leave time to the server and to other tests.
const betweenQueries = 5 * time.Millisecond

// TestExpressReloads reloads a server while it is queried: with another TTL, with a Corefile without an express path and back, and with an
// invalid one. Every query is answered, and sockets neither leak nor stay where they aren't wanted. The Corefile has no shed, because
// replies that wait in shed when the old server ends are lost.
func TestExpressReloads(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "objects.yaml"), []byte(expressObjects), 0o600); err != nil {
		t.Fatal(err)
	}
	port, metrics := freeport.For(t), freeport.For(t)
	s := startCoreDNS(t, expressCorefile(port, metrics, dir, "", "ttl 1"))
	expectAddress(t, port, "web.test.svc.clusterset.local.", "10.42.0.1")
	expectLog(t, s.log, "express: on at")
	expectSockets(t, s, 1)

	stop := askAlong(t, port)
	for i := range 5 {
		ttl := 10 * (i + 1)
		s.reload(t, expressCorefile(port, metrics, dir, "", fmt.Sprintf("ttl %d", ttl)))
		expectTTL(t, port, ttl)
		expectSockets(t, s, 1)

		s.reload(t, expressCorefile(port, metrics, dir, "minimal", fmt.Sprintf("ttl %d", ttl+1)))
		expectTTL(t, port, ttl+1)
		expectSockets(t, s, 1)

		s.reload(t, expressCorefile(port, metrics, dir, "", fmt.Sprintf("ttl %d", ttl+2)))
		expectTTL(t, port, ttl+2)
		expectSockets(t, s, 1)

		s.failToReload(t, expressCorefile(port, metrics, dir, "nosuchplugin", "ttl 999"))
		expectTTL(t, port, ttl+2)
		expectSockets(t, s, 1)
	}
	moved := freeport.For(t)
	stop() // clients of the old port get no answer from here on, as without the express path
	s.reload(t, expressCorefile(moved, metrics, dir, "", "ttl 7"))
	expectTTL(t, moved, 7)
	expectSockets(t, s, 1)
	if code := s.Stop(soon); code != 0 {
		t.Errorf("after SIGTERM: exit code %d", code)
	}
}

// reload makes the process load another Corefile.
func (s *coreDNS) reload(t *testing.T, corefile string) {
	t.Helper()
	s.load(t, corefile, "Reloading complete")
}

// failToReload makes the process load an invalid Corefile.
func (s *coreDNS) failToReload(t *testing.T, corefile string) {
	t.Helper()
	s.load(t, corefile, "Restart failed")
}

// load waits until the log says how the reload ended. The Corefile doesn't have the plugin reload, which would notice the new Corefile too:
// caddy doesn't keep two reloads at the same time apart.
func (s *coreDNS) load(t *testing.T, corefile, end string) {
	t.Helper()
	before := strings.Count(s.log.String(), end)
	if err := os.WriteFile(s.corefile, []byte(corefile), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	kube.Eventually(t, func() error {
		if strings.Count(s.log.String(), end) == before {
			return fmt.Errorf("no %q:\n%s", end, s.log)
		}
		return nil
	})
}

// askAlong keeps sending queries for the express path and for the chain until stop is called, at least ten of each.
func askAlong(t *testing.T, port string) (stop func()) {
	t.Helper()
	var stopping atomic.Bool
	done := make(chan string, 3)
	for _, q := range []struct {
		name  string
		qtype uint16
	}{{"web.test.svc.clusterset.local.", dns.TypeA}, {"db.test.svc.global.", dns.TypeA}, {"none.test.svc.global.", dns.TypeAAAA}} {
		go func() { done <- ask(port, q.name, q.qtype, &stopping) }()
	}
	return func() {
		t.Helper()
		stopping.Store(true)
		for range 3 {
			if problem := <-done; problem != "" {
				t.Error(problem)
			}
		}
	}
}

func ask(port, name string, qtype uint16, stopping *atomic.Bool) (problem string) {
	for n := 0; n < 10 || !stopping.Load(); n++ {
		<-time.After(betweenQueries)
		conn, err := net.Dial("udp", "127.0.0.1:"+port)
		if err != nil {
			return err.Error()
		}
		m, _, err := (&dns.Client{Timeout: soon}).ExchangeWithConn(new(dns.Msg).SetQuestion(name, qtype), &dns.Conn{Conn: conn})
		conn.Close()
		if err != nil {
			return fmt.Sprintf("question %d for %s: %v", n, name, err)
		}
		if qtype == dns.TypeA && len(m.Answer) == 0 || qtype != dns.TypeA && m.Rcode != dns.RcodeNameError {
			return fmt.Sprintf("question %d for %s got\n%v", n, name, m)
		}
	}
	return ""
}

func expectTTL(t *testing.T, port string, want int) {
	t.Helper()
	kube.Eventually(t, func() error {
		m, _, err := (&dns.Client{Timeout: 2 * time.Second}).Exchange(new(dns.Msg).SetQuestion("web.test.svc.clusterset.local.", dns.TypeA), "127.0.0.1:"+port)
		if err != nil {
			return err
		}
		if len(m.Answer) != 1 || int(m.Answer[0].Header().Ttl) != want {
			return fmt.Errorf("want TTL %d in\n%v", want, m)
		}
		return nil
	})
}

func expectSockets(t *testing.T, s *coreDNS, want int) {
	t.Helper()
	kube.Eventually(t, func() error {
		if got := udpSockets(t, s); got != want {
			return fmt.Errorf("%d sockets for UDP, want %d", got, want)
		}
		return nil
	})
}

// udpSockets counts the process's descriptors of UDP sockets.
func udpSockets(t *testing.T, s *coreDNS) int {
	t.Helper()
	dir := fmt.Sprintf("/proc/%d", s.PID())
	inodes := map[string]bool{}
	for _, file := range []string{"/net/udp", "/net/udp6"} {
		table, err := os.ReadFile(dir + file)
		if err != nil {
			t.Skipf("no table of sockets: %v", err)
		}
		for line := range strings.Lines(string(table)) {
			if fields := strings.Fields(line); len(fields) > 9 {
				inodes["socket:["+fields[9]+"]"] = true
			}
		}
	}
	descriptors, err := os.ReadDir(dir + "/fd")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, d := range descriptors {
		if to, err := os.Readlink(filepath.Join(dir, "fd", d.Name())); err == nil && inodes[to] {
			n++
		}
	}
	return n
}
