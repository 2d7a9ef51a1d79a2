//go:build linux && (amd64 || arm64)

package express

import (
	"net"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"
)

const (
	// batch is how many packets one system call reads.
	batch = 32
	// oobSize holds the address that a packet was sent to, of either family.
	oobSize = 40
)

// packets has a batch: packets that were read, and the replies to them.
type packets struct {
	pktinfo      bool // if the socket is bound to all addresses, a reply must have the query's destination as source
	in, out      [batch]mmsghdr
	inIov        [batch]unix.Iovec
	outIov       [batch]unix.Iovec
	names        [batch]unix.RawSockaddrInet6
	oob          [batch][oobSize]byte
	packets      [batch][dns.MinMsgSize]byte // the most that a dns.Server reads
	replies      [batch][MaxReply]byte
	zones        [batch]int // of the replies
	began        time.Time  // when the batch was received
	waiting      [batch]int // packets for the chain, by index
	first, count int        // of those
}

// mmsghdr is struct mmsghdr of recvmmsg(2).
type mmsghdr struct {
	hdr    unix.Msghdr
	length uint32
	_      uint32
}

// prepare sets what stays the same.
func (p *packets) prepare() {
	for i := range p.in {
		p.inIov[i] = unix.Iovec{Base: &p.packets[i][0], Len: dns.MinMsgSize}
		p.in[i].hdr = unix.Msghdr{Name: (*byte)(unsafe.Pointer(&p.names[i])), Iov: &p.inIov[i], Iovlen: 1, Control: &p.oob[i][0]}
		p.outIov[i].Base = &p.replies[i][0]
		p.out[i].hdr = unix.Msghdr{Iov: &p.outIov[i], Iovlen: 1}
	}
}

// mmsg calls recvmmsg or sendmmsg for the first n messages, and never waits.
func mmsg(trap, fd uintptr, messages []mmsghdr, n int) (int, syscall.Errno) {
	done, _, errno := syscall.RawSyscall6(trap, fd, uintptr(unsafe.Pointer(&messages[0])), uintptr(n), unix.MSG_DONTWAIT, 0, 0)
	return int(done), errno //nolint:gosec // at most n
}

// receive reads a batch, and returns how many packets it has.
func (p *packets) receive(fd uintptr) (int, syscall.Errno) {
	for i := range p.in {
		h := &p.in[i].hdr
		h.Namelen = unix.SizeofSockaddrInet6
		if p.pktinfo {
			h.SetControllen(oobSize)
		}
	}
	n, errno := mmsg(unix.SYS_RECVMMSG, fd, p.in[:], batch)
	p.began = time.Now()
	return n, errno
}

// bytes returns packet i.
func (p *packets) bytes(i int) []byte { return p.packets[i][:p.in[i].length] }

// address sets reply j's destination to packet i's source, and its source to packet i's destination.
func (p *packets) address(i, j, size int) {
	p.outIov[j].SetLen(size)
	h, from := &p.out[j].hdr, &p.in[i].hdr
	h.Name, h.Namelen = from.Name, from.Namelen
	if p.pktinfo {
		h.Control = from.Control
		h.SetControllen(len(p.source(i)))
	}
}

// sendWait is how many milliseconds the replies of a batch wait at most for space in the socket's buffer.
const sendWait = 20

// send sends the first n replies. A reply that can't be sent is lost, like any datagram.
func (p *packets) send(fd uintptr, n int) {
	waited := false
	for sent := 0; sent < n; {
		done, errno := mmsg(unix.SYS_SENDMMSG, fd, p.out[sent:], n-sent)
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

// source turns the control message with packet i's destination into one that sets a reply's source address, on any interface. It returns
// that, of no length if there is none.
func (p *packets) source(i int) []byte {
	const v4, v6 = unix.SizeofCmsghdr + unix.SizeofInet4Pktinfo, unix.SizeofCmsghdr + unix.SizeofInet6Pktinfo
	oob := p.oob[i][:p.in[i].hdr.Controllen]
	if len(oob) < v4 {
		return nil
	}
	switch h := (*unix.Cmsghdr)(unsafe.Pointer(&oob[0])); {
	case h.Level == unix.IPPROTO_IP && h.Type == unix.IP_PKTINFO:
		(*unix.Inet4Pktinfo)(unsafe.Pointer(&oob[unix.SizeofCmsghdr])).Ifindex = 0
		return oob[:min(unix.CmsgSpace(unix.SizeofInet4Pktinfo), len(oob))]
	case h.Level == unix.IPPROTO_IPV6 && h.Type == unix.IPV6_PKTINFO && len(oob) >= v6:
		(*unix.Inet6Pktinfo)(unsafe.Pointer(&oob[unix.SizeofCmsghdr])).Ifindex = 0
		return oob[:min(unix.CmsgSpace(unix.SizeofInet6Pktinfo), len(oob))]
	default:
		return nil
	}
}

// isIPv6 reports whether packet i came by IPv6.
func (p *packets) isIPv6(i int) bool {
	n := &p.names[i]
	return n.Family == unix.AF_INET6 && !net.IP(n.Addr[:]).Equal(net.IP(n.Addr[:]).To4())
}

// remote returns the source address of packet i. Plugins expect a *net.UDPAddr, so what WriteTo needs besides, the control message that sets
// the reply's source, is behind its IP, in the capacity of the slice.
func (p *packets) remote(i int) *net.UDPAddr {
	n := &p.names[i]
	port := (*[2]byte)(unsafe.Pointer(&n.Port))
	udp := &net.UDPAddr{Port: int(be.Uint16(port[:]))}
	ip := n.Addr[:]
	if n.Family == unix.AF_INET {
		ip = (*unix.RawSockaddrInet4)(unsafe.Pointer(n)).Addr[:]
	} else if n.Scope_id != 0 {
		udp.Zone = strconv.FormatUint(uint64(n.Scope_id), 10)
	}
	var oob []byte
	if p.pktinfo {
		oob = p.source(i)
	}
	b := make([]byte, len(ip)+len(oob))
	copy(b[copy(b, ip):], oob)
	udp.IP = b[:len(ip)]
	return udp
}
