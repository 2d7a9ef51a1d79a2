//go:build linux && (amd64 || arm64)

package express

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/coredns/coredns/plugin/metrics/vars"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"
)

// lastBatches bounds how many batches are read when a socket is stopped. They are more than a socket holds.
const lastBatches = 16

// socket is the UDP socket of a server, which reads it through ReadFrom, in one goroutine. It answers the packets it can, and returns the
// others.
type socket struct {
	*net.UDPConn
	raw    syscall.RawConn
	target *target

	responder *Responder
	counters  *counters
	answers   prometheus.Counter

	packets

	stopped atomic.Bool
	last    int           // how many batches are left to read after the socket was stopped
	ended   chan struct{} // closed when nothing is read any more
	end     func()        // closes it

	// The methods of these names, so that calls of them don't allocate.
	readFunc      func(fd uintptr) bool
	readAfterFunc func(fd uintptr)
}

// newSocket prepares a socket.
func newSocket(udp *net.UDPConn, t *target) (*socket, error) {
	raw, err := udp.SyscallConn()
	if err != nil {
		return nil, err
	}
	s := &socket{
		UDPConn: udp, raw: raw, target: t, responder: NewResponder(MaxReply),
		counters: newCounters(t.server.Addr, "udp", t.metrics, t.answers), answers: answersTotal.WithLabelValues(t.server.Addr),
		last: lastBatches, ended: make(chan struct{}),
	}
	s.end = sync.OnceFunc(func() { close(s.ended) })
	s.readFunc, s.readAfterFunc = s.read, s.readAfter
	s.prepare()
	if local, ok := udp.LocalAddr().(*net.UDPAddr); ok && local.IP.IsUnspecified() {
		s.pktinfo = true
		var setErr error
		if err = raw.Control(func(fd uintptr) { setErr = setPktinfo(int(fd)) }); err == nil { //nolint:gosec // a descriptor
			err = setErr
		}
	}
	return s, err
}

func setPktinfo(fd int) error {
	domain, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
	switch {
	case err != nil:
	case domain == unix.AF_INET6:
		err = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1)
	default:
		err = unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_PKTINFO, 1)
	}
	return os.NewSyscallError("IP_PKTINFO", err)
}

// supported returns why this system can have no express path at an address, or nil. A seccomp profile may forbid to read and write many
// packets at once.
func supported(addr string) error {
	if !strings.HasPrefix(addr, "dns://") {
		return nil
	}
	const none = ^uintptr(0) // of all descriptors
	var messages [1]mmsghdr
	for _, call := range []struct {
		name string
		trap uintptr
	}{{"recvmmsg", unix.SYS_RECVMMSG}, {"sendmmsg", unix.SYS_SENDMMSG}} {
		if _, errno := mmsg(call.trap, none, messages[:], 0); errno != 0 && errno != unix.EBADF {
			return os.NewSyscallError(call.name, errno)
		}
	}
	return nil
}

// stop ends the reading of the socket. When stop returns, the packets that have arrived are answered, or with the server.
func (s *socket) stop() {
	_ = s.SetReadDeadline(time.Unix(1, 0))
	<-s.ended
}

// SetReadDeadline implements [net.PacketConn]. A dns.Server sets one for each packet, on which nothing depends, and one in the past to stop.
func (s *socket) SetReadDeadline(t time.Time) error {
	if t.After(longAgo) {
		return nil
	}
	s.stopped.Store(true)
	return s.UDPConn.SetReadDeadline(t)
}

// ReadFrom implements [net.PacketConn]. It answers packets until one is for the plugin chain, and returns that. After the socket was stopped
// it does so with the packets that have arrived, and then fails.
func (s *socket) ReadFrom(b []byte) (int, net.Addr, error) {
	for {
		if s.first < s.count {
			i := s.waiting[s.first]
			s.first++
			return copy(b, s.bytes(i)), s.remote(i), nil
		}
		if s.count > 0 {
			// The packets for the chain have their goroutines by now. Let them run before reading more: under a flood this goroutine would
			// otherwise keep its processor for as long as the scheduler allows.
			s.first, s.count = 0, 0
			runtime.Gosched()
		}
		err := s.raw.Read(s.readFunc)
		if err != nil && s.stopped.Load() && s.last > 0 {
			s.last--
			err = s.raw.Control(s.readAfterFunc)
		}
		if err != nil {
			s.end()
			if s.stopped.Load() {
				err = net.ErrClosed // a dns.Server would go on after an error of its deadline
			}
			return 0, nil, err
		}
	}
}

// read reads and answers packets. It returns false when nothing is left to read, and true when packets wait for the chain or when the socket
// was stopped.
func (s *socket) read(fd uintptr) bool {
	for failures := 0; failures < 1000; {
		switch n, errno := s.receive(fd); {
		case errno == unix.EINTR:
		case errno == unix.EAGAIN:
			return false
		case errno != 0:
			failures++ // such as a pending error of an earlier reply, which reading clears
		default:
			s.answerBatch(fd, n)
			if s.count > 0 || s.stopped.Load() {
				return true
			}
		}
	}
	return false
}

// readAfter reads a batch after the socket was stopped, when no reader waits.
func (s *socket) readAfter(fd uintptr) {
	switch n, errno := s.receive(fd); errno {
	case 0:
		s.answerBatch(fd, n)
	case unix.EAGAIN:
		s.last = 0
	}
}

// answerBatch answers the first n packets of a batch.
func (s *socket) answerBatch(fd uintptr, n int) {
	answered := 0
	for i := range n {
		r := s.answer(i, answered)
		if r.Size == 0 {
			s.waiting[s.count] = i
			s.count++
			continue
		}
		s.zones[answered] = r.zone
		s.address(i, answered, r.Size)
		answered++
	}
	s.send(fd, answered)
	s.answers.Add(float64(answered))
	s.counters.took(s.zones[:answered], time.Since(s.began))
}

// answer writes the reply to packet i as reply j. A packet that makes it panic goes to the chain.
func (s *socket) answer(i, j int) (r Reply) {
	defer recovered(&r)
	packet, via := s.bytes(i), UDPv4
	if s.isIPv6(i) {
		via = UDPv6
	}
	if r = s.responder.Reply(s.target.answers, s.replies[j][:], packet, via); r.Size > 0 {
		s.counters.count(&r, len(packet), via == UDPv6)
	}
	return r
}

// recovered ends a panic, and leaves the query to the chain.
func recovered(r *Reply) {
	if p := recover(); p != nil {
		vars.Panic.Inc()
		log.Errorf("express: recovered from a panic: %v", p)
		*r = Reply{}
	}
}

// WriteTo implements [net.PacketConn], for replies of the chain to addresses that ReadFrom has returned.
func (s *socket) WriteTo(b []byte, to net.Addr) (int, error) {
	addr, ok := to.(*net.UDPAddr)
	if !ok {
		return 0, fmt.Errorf("write to %v: not an address of UDP", to)
	}
	n, _, err := s.WriteMsgUDP(b, addr.IP[len(addr.IP):cap(addr.IP)], addr)
	return n, err
}
