package datapath

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterset/clusterset/test/kube"
)

// uses are connections or questions, one begun every 20 ms, each in its own goroutine: one that fails waits for seconds.
type uses struct {
	*testing.T
	results chan use
	end     func() // begins no more, and waits for those that wait
}

type use struct {
	begun  time.Time
	wanted bool
}

// use begins them, each of the given kinds in turn. A function reports whether the right one answered; it is given a number that no
// other has, for an address and a port of its own.
func (s *service) use(kinds ...func(number int) (wanted bool)) *uses {
	u := &uses{T: s.T, results: make(chan use, 1<<14)}
	stop := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		pace := time.NewTicker(20 * time.Millisecond)
		defer pace.Stop()
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-pace.C:
			}
			number := int(s.w.lone.Add(1))
			all.Go(func() {
				begun := time.Now()
				u.results <- use{begun, kinds[i%len(kinds)](number)}
			})
		}
	})
	u.end = sync.OnceFunc(func() {
		close(stop)
		all.Wait()
	})
	s.Cleanup(u.end)
	return u
}

// last returns how long after the time given the last one was begun that wasn't answered by the right one: 200 that were have followed it.
func (u *uses) last(change time.Time) time.Duration {
	u.Helper()
	last := change
	see := func(r use) bool {
		if !r.wanted && r.begun.After(last) {
			last = r.begun
			return true
		}
		return false
	}
	for since := 0; since < 200; {
		select {
		case r := <-u.results:
			switch {
			case see(r):
				since = 0
			case r.wanted && r.begun.After(last):
				since++
			}
		case <-time.After(kube.Patience):
			u.Fatal("nothing ends")
		}
		if time.Since(change) > kube.Patience {
			u.Fatal("they go on being answered by others, or by nobody")
		}
	}
	u.end()
	close(u.results)
	for r := range u.results {
		see(r)
	}
	return last.Sub(change).Round(10 * time.Millisecond)
}

// connections returns what opens a connection in that way, from each node and to each of its addresses, and wants it answered by one of the pods.
func (s *service) connections(w way, wanted ...*pod) (all []func(int) bool) {
	s.Helper()
	for _, n := range w.from {
		vips, err := s.addresses(n.cluster, w.own)
		if err != nil {
			s.Fatal(err)
		}
		for _, vip := range vips {
			if strings.HasSuffix(w.network, "4") && vip.Is6() {
				continue
			}
			names := pods(wanted).names(vip.Is6())
			all = append(all, func(number int) bool {
				// No address and port of a client twice: the kernel remembers for two minutes where a connection went that was never answered.
				source := netip.AddrPortFrom(n.client(vip.Is6(), 200+number%50), uint16(10_000+number/50%20_000)) //nolint:gosec // within 16 bits
				who := ""
				err := n.ns.do(func() error {
					dialer := net.Dialer{Timeout: patience, LocalAddr: net.TCPAddrFromAddrPort(source)}
					conn, err := dialer.Dial("tcp", netip.AddrPortFrom(vip, w.port).String())
					if err != nil {
						return err
					}
					defer func() { _ = conn.Close() }()
					who, err = whoAnswers(conn)
					return err
				})
				return err == nil && slices.Contains(names, who)
			})
		}
	}
	return all
}

// named returns nil if the service's name in svc.global has these IPv4 addresses, in their order, for a cluster's DNS server.
func (s *service) named(c *cluster, want ...netip.Addr) error {
	reply, err := c.DNS.Ask(s.Context(), "web."+s.namespace+".svc.global.", dns.TypeA)
	if err != nil {
		return err
	}
	var got []netip.Addr
	for _, rr := range reply.Answer {
		if a, ok := rr.(*dns.A); ok {
			addr, _ := netip.AddrFromSlice(a.A.To4())
			got = append(got, addr)
		}
	}
	slices.SortFunc(got, netip.Addr.Compare)
	if !slices.Equal(got, want) {
		return fmt.Errorf("the name has %v in %s, want %v", got, c.Name, want)
	}
	return nil
}

// atLength reports whether tests run at length.
func atLength() bool { return os.Getenv("CLUSTERSET_LONG") != "" }

// repeat repeats what must end within a time: at length so many times, and each must. In make test other packages' tests may keep both
// processors busy for seconds, so there one of three must.
func repeat(t *testing.T, times int, within time.Duration, f func() time.Duration) {
	t.Helper()
	if !atLength() {
		times = 3
	}
	var took []time.Duration
	for range times {
		took = append(took, f())
		if !atLength() && took[len(took)-1] <= within {
			break
		}
	}
	slices.Sort(took)
	t.Logf("%s, median %s", took, took[(len(took)-1)/2])
	if last := took[len(took)-1]; atLength() && last > within || took[0] > within {
		t.Errorf("it took %s, want %s at most", took, within)
	}
}
