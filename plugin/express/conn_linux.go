//go:build linux && (amd64 || arm64)

package express

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"github.com/coredns/coredns/plugin/metrics/vars"
	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"
)

const (
	// batch is how many packets one system call reads.
	batch = 32
	// oobSize holds the address that a packet was sent to, of either family.
	oobSize = 40
)

// lastBatches bounds how many batches a reader reads when its socket is stopped. They are more than a socket holds.
const lastBatches = 16

// conn is one of the readers of a socket. It is a net.PacketConn whose ReadFrom answers the packets it can, and returns the others to a
// dns.Server. Only one reader at a time waits for packets or reads them.
type conn struct {
	*net.UDPConn
	socket  *socket
	pktinfo bool // if the socket is bound to all addresses, a reply must have the query's destination as source
	alone   bool // the socket has no other reader
	last    int  // how many batches are left to read after the socket was stopped

	responder *Responder
	counters  *counters
	answers   prometheus.Counter

	in, out      [batch]mmsghdr
	inIov        [batch]unix.Iovec
	outIov       [batch]unix.Iovec
	names        [batch]unix.RawSockaddrInet6
	oob          [batch][oobSize]byte
	packets      [batch][dns.MinMsgSize]byte // the most that a dns.Server reads
	replies      [batch][MaxReply]byte
	zones        [batch]int
	began        time.Time  // when the batch was received
	received     int        // packets of the batch that aren't answered yet
	waiting      [batch]int // packets for the chain, by index
	first, count int        // of those

	// The methods of these names, so that calls of them don't allocate.
	readFunc                  func(fd uintptr) bool
	answerFunc, readAfterFunc func(fd uintptr)
}

// mmsghdr is struct mmsghdr of recvmmsg(2).
type mmsghdr struct {
	hdr    unix.Msghdr
	length uint32
	_      uint32
}

// newConn prepares a reader. It fails if the system can't read many packets at once.
func newConn(s *socket) (*conn, error) {
	c := &conn{UDPConn: s.udp, socket: s, last: lastBatches, responder: NewResponder(MaxReply)}
	c.readFunc, c.answerFunc, c.readAfterFunc = c.read, c.answerBatch, c.readAfter
	c.counters = newCounters(s.target.server.Addr, "udp", s.target.metrics, s.target.answers)
	c.answers = answersTotal.WithLabelValues(s.target.server.Addr)
	if local, ok := s.udp.LocalAddr().(*net.UDPAddr); ok {
		c.pktinfo = local.IP.IsUnspecified()
	}
	for i := range c.in {
		c.inIov[i] = unix.Iovec{Base: &c.packets[i][0], Len: dns.MinMsgSize}
		c.in[i].hdr = unix.Msghdr{Name: (*byte)(unsafe.Pointer(&c.names[i])), Iov: &c.inIov[i], Iovlen: 1, Control: &c.oob[i][0]}
		c.outIov[i].Base = &c.replies[i][0]
		c.out[i].hdr = unix.Msghdr{Iov: &c.outIov[i], Iovlen: 1}
	}
	var setErr error
	err := s.raw.Control(func(fd uintptr) { setErr = c.prepare(int(fd)) }) //nolint:gosec // a descriptor
	if err == nil {
		err = setErr
	}
	return c, err
}

func (c *conn) prepare(fd int) error {
	if c.pktinfo {
		domain, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
		if err != nil {
			return os.NewSyscallError("getsockopt", err)
		}
		if domain == unix.AF_INET6 {
			err = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1)
		} else {
			err = unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_PKTINFO, 1)
		}
		if err != nil {
			return os.NewSyscallError("setsockopt", err)
		}
	}
	// A seccomp profile may forbid these calls. With no messages they do nothing.
	if _, errno := mmsg(unix.SYS_RECVMMSG, uintptr(fd), c.in[:], 0); errno != 0 && errno != unix.EAGAIN { //nolint:gosec // a descriptor
		return os.NewSyscallError("recvmmsg", errno)
	}
	if _, errno := mmsg(unix.SYS_SENDMMSG, uintptr(fd), c.out[:], 0); errno != 0 { //nolint:gosec // a descriptor
		return os.NewSyscallError("sendmmsg", errno)
	}
	return nil
}

// mmsg calls recvmmsg or sendmmsg for the first n messages, and never waits.
func mmsg(trap, fd uintptr, messages []mmsghdr, n int) (int, syscall.Errno) {
	done, _, errno := syscall.RawSyscall6(trap, fd, uintptr(unsafe.Pointer(&messages[0])), uintptr(n), unix.MSG_DONTWAIT, 0, 0)
	return int(done), errno //nolint:gosec // at most n
}

// SetReadDeadline implements net.PacketConn. A dns.Server sets one for each packet, but nothing depends on it.
func (*conn) SetReadDeadline(time.Time) error { return nil }

// Close implements net.PacketConn. The socket is closed when its last reader has ended.
func (*conn) Close() error { return nil }

// ReadFrom implements net.PacketConn. It answers packets until one is for the plugin chain, and returns that. After the socket was stopped
// it answers the packets that have arrived and then fails.
func (c *conn) ReadFrom(b []byte) (int, net.Addr, error) {
	for {
		if c.first < c.count {
			i := c.waiting[c.first]
			c.first++
			return copy(b, c.packets[i][:c.in[i].length]), c.remote(i), nil
		}
		if c.count > 0 {
			// The packets for the chain have their goroutines by now. Let them run before reading more: under a flood this goroutine would
			// otherwise keep its processor for as long as the scheduler allows.
			c.first, c.count = 0, 0
			runtime.Gosched()
		}
		err := c.socket.raw.Read(c.readFunc)
		if err != nil && c.socket.stopped.Load() {
			if c.last == 0 {
				return 0, nil, net.ErrClosed
			}
			c.last--
			err = c.socket.raw.Control(c.readAfterFunc)
		}
		if err == nil && c.received > 0 {
			err = c.socket.raw.Control(c.answerFunc)
		}
		if err != nil {
			return 0, nil, err
		}
	}
}

// read reads and answers packets. It returns false when nothing is left to read, and true when packets wait for the chain, when there may be
// so many packets that another reader should read while this one answers, or when the socket was stopped.
func (c *conn) read(fd uintptr) bool {
	for failures := 0; failures < 1000; {
		switch errno := c.receive(fd); {
		case errno == unix.EINTR:
		case errno == unix.EAGAIN:
			return false
		case errno != 0:
			failures++ // such as a pending error of an earlier reply, which reading clears
		case c.received == batch && !c.alone:
			return true
		default:
			c.answerBatch(fd)
			if c.count > 0 || c.socket.stopped.Load() {
				return true
			}
		}
	}
	return false
}

// readAfter reads a batch after the socket was stopped, when no reader waits.
func (c *conn) readAfter(fd uintptr) {
	if c.receive(fd) == unix.EAGAIN {
		c.last = 0
	}
}

// receive reads a batch.
func (c *conn) receive(fd uintptr) (errno syscall.Errno) {
	for i := range c.in {
		h := &c.in[i].hdr
		h.Namelen = unix.SizeofSockaddrInet6
		if c.pktinfo {
			h.SetControllen(oobSize)
		}
	}
	c.received, errno = mmsg(unix.SYS_RECVMMSG, fd, c.in[:], batch)
	if errno != 0 {
		c.received = 0
	}
	c.began = time.Now()
	return errno
}

// answerBatch answers the packets of a batch.
func (c *conn) answerBatch(fd uintptr) {
	answered := 0
	for i := range c.received {
		r := c.answer(c.socket.target.answers, i, answered)
		if r.Size == 0 {
			c.waiting[c.count] = i
			c.count++
			continue
		}
		c.zones[answered] = r.zone
		c.address(i, answered, r.Size)
		answered++
	}
	c.received = 0
	c.send(fd, answered)
	c.answers.Add(float64(answered))
	c.counters.took(c.zones[:answered], time.Since(c.began))
}

// answer writes the reply to packet i as reply j. A packet that makes it panic goes to the chain.
func (c *conn) answer(a *Answers, i, j int) (r Reply) {
	defer recovered(&r)
	packet, via := c.packets[i][:c.in[i].length], UDPv4
	if c.isIPv6(i) {
		via = UDPv6
	}
	if r = c.responder.Reply(a, c.replies[j][:], packet, via); r.Size > 0 {
		c.counters.count(&r, len(packet), via == UDPv6)
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

// address sets reply j's destination to packet i's source, and its source to packet i's destination.
func (c *conn) address(i, j, size int) {
	c.outIov[j].SetLen(size)
	h, from := &c.out[j].hdr, &c.in[i].hdr
	h.Name, h.Namelen = from.Name, from.Namelen
	if c.pktinfo {
		h.Control = from.Control
		h.SetControllen(source(c.oob[i][:from.Controllen]))
	}
}

// sendWait is how many milliseconds the replies of a batch wait at most for space in the socket's buffer.
const sendWait = 20

// send sends the first n replies. A reply that can't be sent is lost, like any datagram.
func (c *conn) send(fd uintptr, n int) {
	waited := false
	for sent := 0; sent < n; {
		done, errno := mmsg(unix.SYS_SENDMMSG, fd, c.out[sent:], n-sent)
		switch {
		case errno == unix.EINTR:
			continue
		case errno == unix.EAGAIN && !waited:
			waited = true
			_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, sendWait) //nolint:gosec // a descriptor
			continue
		case errno != 0:
			done = 1 // skip the reply that failed
		}
		sent += done
	}
}

// source turns the control message with a packet's destination into one that sets the reply's source address, on any interface. It returns
// its length, 0 for none.
func source(oob []byte) int {
	const v4, v6 = unix.SizeofCmsghdr + unix.SizeofInet4Pktinfo, unix.SizeofCmsghdr + unix.SizeofInet6Pktinfo
	if len(oob) < v4 {
		return 0
	}
	switch h := (*unix.Cmsghdr)(unsafe.Pointer(&oob[0])); {
	case h.Level == unix.IPPROTO_IP && h.Type == unix.IP_PKTINFO:
		(*unix.Inet4Pktinfo)(unsafe.Pointer(&oob[unix.SizeofCmsghdr])).Ifindex = 0
		return unix.CmsgSpace(unix.SizeofInet4Pktinfo)
	case h.Level == unix.IPPROTO_IPV6 && h.Type == unix.IPV6_PKTINFO && len(oob) >= v6:
		(*unix.Inet6Pktinfo)(unsafe.Pointer(&oob[unix.SizeofCmsghdr])).Ifindex = 0
		return unix.CmsgSpace(unix.SizeofInet6Pktinfo)
	default:
		return 0
	}
}

// isIPv6 reports whether packet i came by IPv6.
func (c *conn) isIPv6(i int) bool {
	n := &c.names[i]
	return n.Family == unix.AF_INET6 && !net.IP(n.Addr[:]).Equal(net.IP(n.Addr[:]).To4())
}

// addr is a packet's source address, with the control message that sets the reply's source to the packet's destination.
type addr struct {
	*net.UDPAddr
	oob []byte
}

// remote returns the source address of packet i.
func (c *conn) remote(i int) net.Addr {
	n := &c.names[i]
	port := (*[2]byte)(unsafe.Pointer(&n.Port))
	udp := &net.UDPAddr{Port: int(be.Uint16(port[:]))}
	if n.Family == unix.AF_INET {
		udp.IP = append(net.IP(nil), (*unix.RawSockaddrInet4)(unsafe.Pointer(n)).Addr[:]...)
	} else {
		udp.IP = append(net.IP(nil), n.Addr[:]...)
		if n.Scope_id != 0 {
			udp.Zone = strconv.FormatUint(uint64(n.Scope_id), 10)
		}
	}
	if !c.pktinfo {
		return udp
	}
	oob := append([]byte(nil), c.oob[i][:c.in[i].hdr.Controllen]...)
	return &addr{udp, oob[:min(source(oob), len(oob))]}
}

// WriteTo implements net.PacketConn, for replies of the chain.
func (c *conn) WriteTo(b []byte, to net.Addr) (int, error) {
	switch to := to.(type) {
	case *addr:
		n, _, err := c.UDPConn.WriteMsgUDP(b, to.oob, to.UDPAddr)
		return n, err
	case *net.UDPAddr:
		return c.UDPConn.WriteToUDP(b, to)
	default:
		return 0, fmt.Errorf("write to %v: not an address of UDP", to)
	}
}
