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
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/net/ipv4"
	"golang.org/x/sync/errgroup"

	"github.com/clusterset/clusterset/test/kube"
)

const expressOff = "        express off\n"

// TestFlood sends as many packets as the machine can, from sockets that never read. That is many times what the server can answer.
// The server must keep answering, with at least half as many answers per second of processor time as before, in bounded memory, and
// recover afterwards. Meanwhile other clients query it over TCP for the cluster's own names. With the express path they must get at least half
// the share of their answers that they get without it. `make load` also runs the test without shed in the Corefile, and then doesn't check the
// memory.
func TestFlood(t *testing.T) {
	c := newCluster(t)
	share := map[string]float64{} // answers that bystanders get beside the flood, relative to without it
	for _, with := range []struct{ name, shed, option string }{{"express", "    shed\n", ""}, {"shed", "    shed\n", expressOff}, {"without shed", "", expressOff}} {
		t.Run(with.name, func(t *testing.T) {
			if with.shed == "" && os.Getenv("LOAD") == "" {
				t.Skip("it is measured for comparison only: part of make load")
			}
			s := startServer(t, c, with.shed+"    kubernetes cluster.local {\n        kubeconfig KUBECONFIG\n    }\n", with.option)
			before, calm := calmly(t, s)
			alone := bystander(t, s, func() { <-time.After(2 * time.Second) })
			var peak usage
			var flooded work
			var sent int
			beside := bystander(t, s, func() { peak, flooded, sent = flood(t, s, lasting(t, 5*time.Second)) })
			share[with.name] = beside / alone
			ended := time.Now()
			kube.Eventually(t, func() error {
				asker := &dns.Client{Timeout: 100 * time.Millisecond}
				_, _, err := asker.Exchange(new(dns.Msg).SetQuestion("stable-0.load.svc.clusterset.local.", dns.TypeA), s.plain)
				return err
			})
			t.Logf("answers again after %s", time.Since(ended).Round(time.Millisecond))
			t.Logf("calm: %s; flooded: %s, %.1f times as many packets as answers when calm", calm, flooded, float64(sent)/flooded.wall.Seconds()/calm.perSecond())
			t.Logf("others: %.0f answers/s alone, %.0f beside the flood", alone, beside)
			t.Logf("resident memory: %d MiB, at most %d MiB", before.resident>>20, peak.resident>>20)
			if flooded.perCPU() < calm.perCPU()/2 {
				t.Errorf("of its processor time the server makes %s", flooded)
			}
			if with.shed != "" && peak.resident > before.resident+256<<20 {
				t.Errorf("resident memory grew to %d MiB", peak.resident>>20)
			}
			settled(t, s, before)
		})
	}
	if share["express"] < share["shed"]/2 {
		t.Errorf("others get %.2f of their answers beside a flood, without the express path %.2f", share["express"], share["shed"])
	}
}

// bystander queries a name that another plugin answers, over TCP, while run runs. It returns how many answers a second it gets.
func bystander(t *testing.T, s *server, run func()) (perSecond float64) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var answers atomic.Int64
	var wait sync.WaitGroup
	wait.Go(func() {
		asker := &client{server: s, network: "tcp"}
		defer asker.hangUp()
		for ctx.Err() == nil {
			if reply, err := asker.exchange("kubernetes.default.svc.cluster.local."); err != nil || len(reply.Answer) != 1 {
				t.Errorf("a name of the cluster: %v, %v", reply, err)
				return
			}
			answers.Add(1)
		}
	})
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

// during returns the server's usage after run, and its work meanwhile.
func (s *server) during(t *testing.T, run func()) (usage, work) {
	t.Helper()
	before, began := s.mustUsage(t), time.Now()
	run()
	after := s.mustUsage(t)
	return after, work{after.handled - before.handled, after.cpu - before.cpu, time.Since(began)}
}

// calmly measures the server while the clients of the mix query without a pause.
func calmly(t *testing.T, s *server) (usage, work) {
	t.Helper()
	capacity(t, s) // warm up: the first answers are slow
	return s.during(t, func() { capacity(t, s) })
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
func flood(t *testing.T, s *server, d time.Duration) (peak usage, done work, packets int) {
	t.Helper()
	var sent atomic.Int64
	_, done = s.during(t, func() {
		ctx, cancel := context.WithTimeout(t.Context(), d)
		defer cancel()
		var wait sync.WaitGroup
		for i := range 2 {
			wait.Go(func() {
				if err := sendMany(ctx, s.plain, rand.New(rand.NewPCG(2, uint64(i))), &sent); err != nil {
					t.Error(err)
				}
			})
		}
		every(ctx, 250*time.Millisecond, &wait, func() {
			if u, err := s.usage(context.WithoutCancel(ctx)); err == nil && u.resident > peak.resident {
				peak = u
			}
		})
		wait.Wait()
	})
	return peak, done, int(sent.Load())
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
	for range 8 {
		conn, err := net.Dial("udp", to)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
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

// settled waits until the server has about as few goroutines and open files as before. Then it checks that the server answers
// correctly.
func settled(t *testing.T, s *server, before usage) {
	t.Helper()
	kube.Eventually(t, func() error {
		u, err := s.usage(t.Context())
		if err == nil && (u.goroutines > before.goroutines+50 || u.files > before.files+20) {
			err = fmt.Errorf("it has %d goroutines and %d files, before there were %d and %d", u.goroutines, u.files, before.goroutines, before.files)
		}
		return err
	})
	capacity(t, s)
}

// TestManyConnections keeps thousands of TCP connections open, each of which has been used for a query. Other clients must be answered as
// if there were none.
func TestManyConnections(t *testing.T) {
	c := newCluster(t)
	for _, kind := range []struct {
		name   string
		over   string
		option string
		n      int
		most   int // bytes for each
	}{
		{"asked on the express path", "tcp", "", 10000, 12 << 10},
		{"asked of the chain", "tcp", expressOff, 10000, 12 << 10},
		{"with TLS", "tcp-tls", "", 2000, 64 << 10},
	} {
		t.Run(kind.name, func(t *testing.T) {
			s := startServer(t, c, "    timeouts {\n        idle 10m\n    }\n", kind.option)
			before, _ := calmly(t, s)
			var limit syscall.Rlimit // the test and the server, which inherits the limit, need a file for each connection
			if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
				t.Fatal(err)
			}
			held := hold(s, kind.over, min(kind.n, int(limit.Max)-200))
			var all tally
			for _, h := range held {
				all.add(h.tally)
			}
			judge(t, kind.over, all)
			with := s.mustUsage(t)
			if with.files < len(held) {
				t.Errorf("the server has %d files open, fewer than %d connections", with.files, len(held))
			}
			each := (with.resident - before.resident) / len(held)
			t.Logf("%d connections take %d bytes of resident memory each", len(held), each)
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

// hold opens connections, asks over each, and leaves them open.
func hold(s *server, network string, n int) []*client {
	held := make([]*client, n)
	var group errgroup.Group
	group.SetLimit(32)
	for i := range held {
		group.Go(func() error {
			held[i] = &client{server: s, network: network, rand: rand.New(rand.NewPCG(3, uint64(i)))}
			held[i].one()
			return nil
		})
	}
	_ = group.Wait()
	return held
}

// TestSlowReaders makes clients send queries with large answers over TCP without reading any, until the kernel's buffers are full
// and the server can write no more. The express path disconnects them after the write timeout. Without it the server keeps each
// connection until the client leaves, because CoreDNS has no timeout for writes over TCP. Other clients must not be affected, and nothing may
// remain of the slow clients.
func TestSlowReaders(t *testing.T) {
	c := newCluster(t)
	query, err := new(dns.Msg).SetQuestion("large.load.svc.clusterset.local.", dns.TypeA).Pack()
	if err != nil {
		t.Fatal(err)
	}
	framed := append([]byte{byte(len(query) >> 8), byte(len(query))}, query...)
	for _, option := range []string{"", expressOff} {
		t.Run(cmp.Or(strings.TrimSpace(option), "express"), func(t *testing.T) {
			s := startServer(t, c, "", option)
			before, _ := calmly(t, s)
			conns := make([]net.Conn, 50)
			var group errgroup.Group
			for i := range conns {
				group.Go(func() (err error) {
					conns[i], err = askUntilStuck(t.Context(), s.plain, framed)
					return err
				})
			}
			err := group.Wait()
			hangUp := func() {
				for _, conn := range conns {
					if conn != nil {
						_ = conn.Close()
					}
				}
			}
			defer hangUp()
			if err != nil && (option == expressOff || slices.Contains(conns, nil)) {
				t.Error(err)
			}
			if option == expressOff {
				capacity(t, s)
				if n := s.mustUsage(t).goroutines; n < len(conns) {
					t.Errorf("the server has %d goroutines: it has left some of %d clients", n, len(conns))
				}
				hangUp()
			}
			settled(t, s, before) // on the express path although no client has left
		})
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
