package load

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/net/ipv4"

	"github.com/clusterset/clusterset/test/poll"
)

// TestFlood sends as many packets as the machine can, from sockets that never read. That is many times what the server can answer.
// The server must keep answering, with at least half as many answers per second of processor time as before, in bounded memory, and
// recover afterwards. Meanwhile other clients query it over TCP for the cluster's own names and for forwarded ones. With the
// express path they must get at least half the share of their answers that they get without it. `make load` also runs the test
// without shed in the Corefile, and then doesn't check the memory.
func TestFlood(t *testing.T) {
	c := theCluster(t)
	others := fmt.Sprintf(`    kubernetes cluster.local {
        kubeconfig KUBECONFIG
    }
    forward %s %s {
        prefer_udp
    }
`, forwarded, upstream(t))
	share := map[string]float64{} // answers that bystanders get beside the flood, relative to without it
	for _, with := range []struct{ name, lines, option string }{
		{"express", "    shed\n", ""}, {"shed", "    shed\n", "        express off\n"}, {"without shed", "", "        express off\n"},
	} {
		t.Run(with.name, func(t *testing.T) {
			if with.lines == "" && os.Getenv("LOAD") == "" {
				t.Skip("it is measured for comparison only: part of make load")
			}
			s := startServer(t, c, with.lines+others, with.option)
			before, calm := calmly(t, s)
			alone := bystanders(t, s, func() { <-time.After(2 * time.Second) })
			var peak usage
			var flooded work
			var sent int
			beside := bystanders(t, s, func() { peak, flooded, sent = flood(t, s, lasting(t, 5*time.Second)) })
			share[with.name] = beside / alone
			back := recovery(t, s)
			t.Logf("calm: %s; flooded: %s, %.1f times as many packets as answers when calm", calm, flooded, float64(sent)/flooded.wall.Seconds()/calm.perSecond())
			t.Logf("others: %.0f answers/s alone, %.0f beside the flood", alone, beside)
			t.Logf("goroutines: %d, at most %d; resident memory: %d MiB, at most %d MiB; answers again after %s",
				before.goroutines, peak.goroutines, before.resident>>20, peak.resident>>20, back.Round(time.Millisecond))
			if flooded.perCPU() < calm.perCPU()/2 {
				t.Errorf("of its processor time the server makes %s", flooded)
			}
			if with.lines != "" && peak.resident > before.resident+256<<20 {
				t.Errorf("resident memory grew to %d MiB", peak.resident>>20)
			}
			settled(t, s, before)
		})
	}
	if share["express"] < share["shed"]/2 {
		t.Errorf("others get %.2f of their answers beside a flood, without the express path %.2f", share["express"], share["shed"])
	}
}

// forwarded is a zone that the server forwards to another.
const forwarded = "forwarded.example."

// upstream starts a server for the forwarded zone, and returns its address.
func upstream(t *testing.T) string {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &dns.Server{PacketConn: conn, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
		_ = w.WriteMsg(new(dns.Msg).SetRcode(r, dns.RcodeNameError))
	})}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.ActivateAndServe() })
	t.Cleanup(func() {
		_ = conn.Close()
		serving.Wait()
	})
	return conn.LocalAddr().String()
}

// bystanders query names that other plugins answer, over TCP, while run runs. It returns how many answers a second they get.
func bystanders(t *testing.T, s *server, run func()) (perSecond float64) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var answers atomic.Int64
	var wait sync.WaitGroup
	for _, name := range []string{"kubernetes.default.svc.cluster.local.", "a." + forwarded} {
		wait.Go(func() {
			asker := &client{server: s, over: overTCP}
			defer asker.hangUp()
			q := question{name: name, qtype: dns.TypeA}
			for ctx.Err() == nil {
				if reply, err := asker.exchange(q); err != nil || reply.Rcode == dns.RcodeServerFailure {
					t.Errorf("%s: %v, %v", name, reply, err)
					return
				}
				answers.Add(1)
			}
		})
	}
	began := time.Now()
	run()
	perSecond = float64(answers.Load()) / time.Since(began).Seconds()
	cancel()
	wait.Wait()
	return perSecond
}

// work is what a server did in a period.
type work struct {
	answers   int
	cpu, wall time.Duration
}

func (w work) perCPU() float64    { return float64(w.answers) / w.cpu.Seconds() }
func (w work) perSecond() float64 { return float64(w.answers) / w.wall.Seconds() }

func (w work) String() string {
	return fmt.Sprintf("%.0f answers/s, %.0f per second of processor time", w.perSecond(), w.perCPU())
}

// calmly measures the server while the clients of the mix query without a pause.
func calmly(t *testing.T, s *server) (usage, work) {
	t.Helper()
	capacity(t, s) // warm up: the first answers are slow
	before := s.mustUsage(t)
	began := time.Now()
	capacity(t, s)
	after := s.mustUsage(t)
	return after, work{after.handled - before.handled, after.cpu - before.cpu, time.Since(began)}
}

func (s *server) mustUsage(t *testing.T) usage {
	t.Helper()
	u, err := s.usage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// flood sends queries from sixteen sockets for a time. It returns the server's maximum usage, its work, and how many packets were
// sent.
func flood(t *testing.T, s *server, d time.Duration) (usage, work, int) {
	t.Helper()
	before := s.mustUsage(t)
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	var sent atomic.Int64
	var wait sync.WaitGroup
	for i := range 2 {
		wait.Go(func() {
			if err := sendMany(ctx, s.plain, rand.New(rand.NewPCG(2, uint64(i))), &sent); err != nil {
				t.Error(err)
			}
		})
	}
	peak := before
	every(ctx, 250*time.Millisecond, &wait, func() {
		if u, err := s.usage(context.WithoutCancel(ctx)); err == nil {
			peak.goroutines = max(peak.goroutines, u.goroutines)
			peak.resident = max(peak.resident, u.resident)
		}
	})
	wait.Wait()
	after := s.mustUsage(t)
	return peak, work{after.handled - before.handled, after.cpu - before.cpu, time.Since(began)}, int(sent.Load())
}

// sendMany sends queries from eight sockets, sixty-four per system call.
func sendMany(ctx context.Context, to string, r *rand.Rand, sent *atomic.Int64) error {
	batch := make([]ipv4.Message, 64)
	for i := range batch {
		wire, err := new(dns.Msg).SetQuestion(draw(r).name, dns.TypeA).Pack()
		if err != nil {
			return err
		}
		batch[i].Buffers = [][]byte{wire}
	}
	var sockets []*ipv4.PacketConn
	defer func() {
		for _, s := range sockets {
			_ = s.Close()
		}
	}()
	for range 8 {
		conn, err := net.Dial("udp", to)
		if err != nil {
			return err
		}
		sockets = append(sockets, ipv4.NewPacketConn(conn.(*net.UDPConn)))
	}
	for i := 0; ctx.Err() == nil; i++ {
		n, err := sockets[i%len(sockets)].WriteBatch(batch, 0)
		if err != nil && !errors.Is(err, syscall.ENOBUFS) {
			return err
		}
		sent.Add(int64(n))
	}
	return nil
}

// recovery returns how long it takes until a client gets an answer over UDP again.
func recovery(t *testing.T, s *server) time.Duration {
	t.Helper()
	began := time.Now()
	asker := &dns.Client{Timeout: 100 * time.Millisecond}
	err := poll.Within(t.Context(), time.Minute, func(ctx context.Context) error {
		_, _, err := asker.ExchangeContext(ctx, new(dns.Msg).SetQuestion("stable-0.load.svc.clusterset.local.", dns.TypeA), s.plain)
		return err
	})
	if err != nil {
		t.Fatalf("after the overload: %v", err)
	}
	return time.Since(began)
}

// settled waits until the server has about as few goroutines and open files as before. Then it checks that the server answers
// correctly.
func settled(t *testing.T, s *server, before usage) {
	t.Helper()
	err := poll.Within(t.Context(), 2*time.Minute, func(ctx context.Context) error {
		u, err := s.usage(ctx)
		if err != nil {
			return err
		}
		if u.goroutines > before.goroutines+50 || u.files > before.files+20 {
			return fmt.Errorf("it has %d goroutines and %d files, before there were %d and %d", u.goroutines, u.files, before.goroutines, before.files)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	capacity(t, s)
}

// TestManyConnections keeps thousands of TCP connections open, each of which has been used for a query. Other clients must be answered as
// if there were none.
func TestManyConnections(t *testing.T) {
	c := theCluster(t)
	for _, kind := range []struct {
		name string
		over transport
		ask  func(*client)
		n    int
		most int // bytes for each
	}{
		{"asked on the express path", overTCP, (*client).one, 10000, 12 << 10},
		{"asked of the chain", overTCP, (*client).zone, 10000, 12 << 10},
		{"with TLS", overTLS, (*client).one, 2000, 64 << 10},
	} {
		t.Run(kind.name, func(t *testing.T) {
			s := startServer(t, c, "    timeouts {\n        idle 10m\n    }\n")
			before, _ := calmly(t, s)
			n := connections(t, kind.n)
			held := hold(s, kind.over, n, kind.ask)
			var all tally
			for _, h := range held {
				all.add(h.tally)
			}
			judge(t, kind.over, all)
			with := s.mustUsage(t)
			if with.files < n {
				t.Errorf("the server has %d files open, fewer than %d connections", with.files, n)
			}
			each := (with.resident - before.resident) / n
			t.Logf("%d connections take %d MiB of resident memory, %d bytes each", n, (with.resident-before.resident)>>20, each)
			if each > kind.most {
				t.Errorf("a connection takes %d bytes, want at most %d", each, kind.most)
			}
			capacity(t, s)
			for _, h := range held {
				h.hangUp()
			}
			settled(t, s, before)
		})
	}
}

// hold opens n connections, asks over each, and leaves them open.
func hold(s *server, over transport, n int, ask func(*client)) []*client {
	held := make([]*client, n)
	var next atomic.Int64
	var wait sync.WaitGroup
	for range 32 {
		wait.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				held[i] = &client{server: s, over: over, rand: rand.New(rand.NewPCG(3, uint64(i)))}
				ask(held[i])
			}
		})
	}
	wait.Wait()
	return held
}

// zone asks for the zone's SOA, which the plugin chain answers.
func (c *client) zone() {
	c.send(question{"clusterset.local.", dns.TypeSOA, func(reply *dns.Msg) error {
		if len(reply.Answer) != 1 {
			return fmt.Errorf("want a SOA, got %s", reply)
		}
		return nil
	}})
}

// connections returns how many connections the test can hold open, at most want. The test and the server need a file for each, and
// the server inherits the test's limits.
func connections(t *testing.T, want int) int {
	t.Helper()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if room := int(limit.Max) - 200; room < want {
		t.Logf("only %d connections: the limit of open files is %d", room, limit.Max)
		return room
	}
	return want
}

// TestSlowReaders makes clients send queries with large answers over TCP without reading any, until the kernel's buffers are full
// and the server can write no more. The express path disconnects them after the write timeout. Without it the server keeps each
// connection until the client leaves, because CoreDNS has no timeout for writes over TCP. Other clients must not be affected, and nothing may
// remain of the slow clients.
func TestSlowReaders(t *testing.T) {
	c := theCluster(t)
	for _, option := range []string{"", "        express off\n"} {
		t.Run(cmp.Or(strings.TrimSpace(option), "express"), func(t *testing.T) { slowReaders(t, startServer(t, c, "", option), option == "") })
	}
}

func slowReaders(t *testing.T, s *server, disconnected bool) {
	t.Helper()
	before, _ := calmly(t, s)
	query, err := new(dns.Msg).SetQuestion("large.load.svc.clusterset.local.", dns.TypeA).Pack()
	if err != nil {
		t.Fatal(err)
	}
	framed := append([]byte{byte(len(query) >> 8), byte(len(query))}, query...)
	const readers = 50
	conns := make([]net.Conn, readers)
	var wait sync.WaitGroup
	for i := range conns {
		wait.Go(func() {
			var err error
			if conns[i], err = askUntilStuck(t.Context(), s.plain, framed); err != nil && (!disconnected || conns[i] == nil) {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	defer func() {
		for _, conn := range conns {
			if conn != nil {
				_ = conn.Close()
			}
		}
	}()
	if disconnected {
		settled(t, s, before) // although no client has left
		return
	}
	stuck(t, s)
	capacity(t, s)
	with := s.mustUsage(t)
	each := (with.live - before.live) / readers
	t.Logf("%d clients that don't read take %d goroutines and %d bytes of live heap each", readers, with.goroutines-before.goroutines, each)
	if with.goroutines < readers {
		t.Errorf("the server has %d goroutines: it has left some of %d clients", with.goroutines, readers)
	}
	// The heap at the last collection also has answers that were under way then, which can be a few kilobytes or a few hundred for
	// each client.
	if with.live > before.live+32<<20 {
		t.Errorf("live heap grew from %d to %d bytes", before.live, with.live)
	}
	for i, conn := range conns {
		if conn != nil {
			_ = conn.Close()
		}
		conns[i] = nil
	}
	settled(t, s, before)
}

// stuck waits until the server has answered nothing for a second, so that it has processed all queries that the kernel had
// buffered.
func stuck(t *testing.T, s *server) {
	t.Helper()
	last, since := -1, time.Now()
	err := poll.Within(t.Context(), 2*time.Minute, func(ctx context.Context) error {
		u, err := s.usage(ctx)
		if err != nil {
			return err
		}
		if u.handled != last {
			last, since = u.handled, time.Now()
		}
		if time.Since(since) < time.Second {
			return fmt.Errorf("it still answers: %d", u.handled)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// askUntilStuck sends queries on one connection without reading, until the server stops reading, too.
func askUntilStuck(ctx context.Context, to string, query []byte) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", to)
	if err != nil {
		return nil, err
	}
	// Small buffers: with the default sizes, a few hundred such clients use up the memory that the kernel grants to TCP on this
	// machine.
	tcp := conn.(*net.TCPConn)
	if err := errors.Join(tcp.SetReadBuffer(16<<10), tcp.SetWriteBuffer(16<<10)); err != nil {
		return conn, err
	}
	queries := bytes.Repeat(query, 1000)
	for {
		if err := conn.SetWriteDeadline(time.Now().Add(time.Second)); err != nil {
			return conn, err
		}
		switch _, err := conn.Write(queries); {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return conn, nil
		case err != nil:
			return conn, fmt.Errorf("the server left before it was stuck: %w", err)
		}
	}
}
