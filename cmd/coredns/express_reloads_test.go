package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterset/clusterset/test/fleet"
	"github.com/clusterset/clusterset/test/freeport"
	"github.com/clusterset/clusterset/test/kube"
)

// reloadQuestions are sent during the reloads. right checks the answer. Three names are ours, and one is another plugin's.
var reloadQuestions = []struct {
	name  string
	qtype uint16
	right func(*dns.Msg) bool
}{
	{"web.test.svc.clusterset.local.", dns.TypeA, func(m *dns.Msg) bool { return len(m.Answer) == 1 }},
	{"_pg._tcp.db.test.svc.global.", dns.TypeSRV, func(m *dns.Msg) bool { return len(m.Answer) == 3 }},
	{"none.test.svc.global.", dns.TypeAAAA, func(m *dns.Msg) bool { return m.Rcode == dns.RcodeNameError }},
	{"www.example.org.", dns.TypeA, func(m *dns.Msg) bool { return len(m.Answer) == 1 }},
}

// betweenQueries is how long who asks over and over waits each time, to leave time to the server and to other tests.
const betweenQueries = 5 * time.Millisecond

// reloaded is a server that is queried while it reloads.
type reloaded struct {
	*expressServer
	steady   bool // always with an express path
	stopping atomic.Bool
	askers   sync.WaitGroup
	asked    atomic.Int64
	lost     atomic.Int64
	closed   atomic.Int64 // queries on connections that were closed
}

// TestExpressManyReloads reloads two servers while they are queried, at random with other options and with invalid Corefiles. No answer is
// wrong. The first server always has an express path, and none of its answers is missing. The other one also switches to a Corefile without an
// express path and back. At the end, there are as many goroutines and sockets as before.
func TestExpressManyReloads(t *testing.T) {
	const reloads = 12
	servers := []*reloaded{{steady: true}, {}}
	var wg sync.WaitGroup
	for _, s := range servers {
		s.expressServer = startAt(t, freeport.For(t), s.with("", 1))
		expectTTL(t, s.dns, 1)
		s.begin(t)
		wg.Go(func() { s.reloadAtRandom(t, reloads) })
	}
	wg.Wait()
	for _, s := range servers {
		s.stopping.Store(true)
		s.askers.Wait()
		t.Logf("always on %v: %d reloads, %d queries, lost %d, on connections that were closed %d", s.steady, reloads, s.asked.Load(), s.lost.Load(), s.closed.Load())
		if s.asked.Load() < 20*reloads {
			t.Errorf("only %d queries were asked during %d reloads", s.asked.Load(), reloads)
		}
		if n := s.lost.Load(); s.steady && n > 0 {
			t.Errorf("%d queries were lost where the express path stayed on", n)
		}
	}
}

func (s *reloaded) with(more string, ttl int) string {
	corefile := expressCorefile(more, fmt.Sprintf("ttl %d", ttl))
	return strings.Replace(corefile, "drop 0", "drop 0\n        delay 2 50ms", 1) // as an upstream server may be slow
}

// begin sends every query over and over.
func (s *reloaded) begin(t *testing.T) {
	for i := range reloadQuestions {
		for _, network := range []string{"udp", "tcp"} {
			s.askers.Go(func() {
				if problem := s.ask(network, i); problem != "" {
					t.Errorf("always on %v, over %s: %s", s.steady, network, problem)
				}
			})
		}
	}
}

// ask sends a query over and over, over UDP from a new port each time, over TCP on one connection until that is closed. A query is lost if it isn't
// answered although its connection stays.
func (s *reloaded) ask(network string, i int) (problem string) {
	q, client := &reloadQuestions[i], &dns.Client{Net: network, Timeout: soon}
	if network == "udp" && !s.steady {
		client.Timeout = 2 * time.Second // it may be lost
	}
	for !s.stopping.Load() {
		conn, err := client.Dial("127.0.0.1:" + s.dns)
		if err != nil {
			return err.Error()
		}
		for again := true; again && err == nil && !s.stopping.Load(); again = network == "tcp" {
			<-time.After(betweenQueries)
			var m *dns.Msg
			s.asked.Add(1)
			m, _, err = client.ExchangeWithConn(new(dns.Msg).SetQuestion(q.name, q.qtype), conn)
			var timeout net.Error
			switch {
			case err == nil && !q.right(m):
				conn.Close()
				return fmt.Sprintf("a wrong answer:\n%s", m)
			case err != nil && network == "udp", errors.As(err, &timeout) && timeout.Timeout():
				s.lost.Add(1)
			case err != nil:
				s.closed.Add(1)
			}
		}
		conn.Close()
	}
	return ""
}

func (s *reloaded) reloadAtRandom(t *testing.T, n int) {
	t.Helper()
	defer func() {
		if t.Failed() {
			_ = s.Signal(syscall.SIGABRT) // its log then shows where it hangs
		}
	}()
	sockets := udpSockets(t, s.coreDNS)
	var goroutines int
	random := rand.New(rand.NewPCG(uint64(n), 0)) //nolint:gosec // for reloads
	ttl := 1
	for i := range n + 1 {
		if i == 1 {
			goroutines = s.goroutines(t) // the first reload makes goroutines that stay
		}
		switch kind := random.IntN(4); {
		case kind == 0 && i < n:
			s.failToReload(t, s.with([]string{"nosuchplugin", "bind 192.0.2.1"}[random.IntN(2)], 999))
		case kind == 1 && i < n && !s.steady:
			ttl = ttl%1000 + 1
			s.reload(t, s.with("minimal", ttl)) // no express path
		default:
			ttl = ttl%1000 + 1
			s.reload(t, s.with("", ttl))
		}
		expectTTL(t, s.dns, ttl)
		if t.Failed() {
			return
		}
	}
	kube.Eventually(t, func() error {
		if got := udpSockets(t, s.coreDNS); got != sockets {
			return fmt.Errorf("%d sockets for UDP, want %d", got, sockets)
		}
		if got := s.goroutines(t); got > goroutines+10 { // for the queries and the metrics request under way
			return fmt.Errorf("%d goroutines, %d at the start", got, goroutines)
		}
		return nil
	})
}

func (s *reloaded) goroutines(t *testing.T) int {
	t.Helper()
	return int(fleet.Samples(metricsText(t, s.metrics)).Sum("go_goroutines"))
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
