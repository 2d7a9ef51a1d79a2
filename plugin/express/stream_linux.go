//go:build linux && (amd64 || arm64)

package express

import (
	"cmp"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"
)

const (
	// lengthSize is the size of the length in front of each message (RFC 1035 section 4.2.2).
	lengthSize = 2
	// readSize is how many bytes one system call reads at most.
	readSize = 4096
	// longestQuery is the longest message that may be answered here, as over UDP.
	longestQuery = dns.MinMsgSize
	// lastReads bounds how often a connection is read when its server has stopped.
	lastReads = 16
	// lastPause is how long one with TLS may be silent then, and lastTime how long it is read.
	lastPause, lastTime = 50 * time.Millisecond, 500 * time.Millisecond
)

// listener is the listener of a server for TCP or TLS. Its connections answer the queries that they can. A dns.Server reads the others from
// them, and does the rest: it keeps the connections, their deadlines and their order, and closes them.
type listener struct {
	net.Listener
	target *target
	closed atomic.Bool
	desks  sync.Pool // of *desk
	chunks sync.Pool // of *[readSize]byte
}

// newListener returns a listener in place of l.
func newListener(l net.Listener, t *target) net.Listener {
	s := &listener{Listener: l, target: t}
	s.desks.New = func() any { return newDesk(t) }
	s.chunks.New = func() any { return new([readSize]byte) }
	return s
}

// Accept implements [net.Listener].
func (l *listener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	s := &stream{Conn: conn, listener: l, left: cmp.Or(l.target.server.MaxTCPQueries, 128)}
	if remote, ok := conn.RemoteAddr().(*net.TCPAddr); ok {
		s.ipv6 = remote.IP.To4() == nil
	}
	switch conn := conn.(type) {
	case *net.TCPConn:
		if s.raw, err = conn.SyscallConn(); err != nil {
			return nil, err
		}
		s.readableFunc = s.readable
	case *tls.Conn:
		return &tlsStream{s, conn}, nil
	}
	return s, nil
}

// Close implements [net.Listener]. A dns.Server closes its listener before it stops its connections.
func (l *listener) Close() error {
	l.closed.Store(true)
	return l.Listener.Close()
}

// desk has the buffers to answer with. A connection has one only while it answers.
type desk struct {
	*Responder
	counters *counters
	answers  prometheus.Counter
	began    time.Time
	in       [readSize]byte
	out      [lengthSize + dns.MaxMsgSize]byte
	written  int // bytes of out
	zones    [readSize / (lengthSize + headerSize)]int
	answered int
}

func newDesk(t *target) *desk {
	return &desk{
		Responder: NewResponder(dns.MaxMsgSize),
		counters:  newCounters(t.server.Addr, "tcp", t.metrics, t.answers),
		answers:   answersTotal.WithLabelValues(t.server.Addr),
	}
}

// stream is a connection whose Read answers messages until one is for the plugin chain, and returns that. Replies are in the order of the
// queries.
type stream struct {
	net.Conn
	listener *listener
	raw      syscall.RawConn // nil for TLS
	left     int             // how many more queries are served, negative for no limit
	rest     []byte          // what has been read, but neither answered nor passed on
	pass     int             // how many bytes, those of rest first, are passed on as a message for the chain
	unsent   []byte          // replies that the socket's buffer had no room for
	chunk    *[readSize]byte
	failed   error
	deadline time.Time // that the dns.Server has set
	last     time.Time // when the last reply was written here
	stopped  atomic.Bool
	ipv6     bool
	more     bool // rest may have further messages
	busy     bool // nothing had to be waited for since the last read

	readableFunc func(fd uintptr) bool // readable, so that calls of it don't allocate
}

// tlsStream shows the state of TLS to plugins.
type tlsStream struct {
	*stream
	conn *tls.Conn
}

// ConnectionState returns the state that [dns.ConnectionStater] shows.
func (s *tlsStream) ConnectionState() tls.ConnectionState { return s.conn.ConnectionState() }

// Read implements [net.Conn].
func (s *stream) Read(b []byte) (n int, err error) {
	for s.pass == 0 {
		if s.left == 0 {
			return 0, io.EOF
		}
		if err := s.advance(); err != nil {
			return 0, err
		}
	}
	b = b[:min(len(b), s.pass)]
	if len(s.rest) > 0 {
		n = copy(b, s.rest)
		s.keep(s.rest[n:])
	} else {
		for n == 0 && err == nil {
			if n, err = s.Conn.Read(b); n == 0 {
				err = s.expired(err)
			}
		}
	}
	if s.pass -= n; s.pass == 0 {
		if s.more = len(s.rest) > 0; !s.more {
			s.rest = nil // many connections ask for names of the chain, and then stay open
		}
	}
	return n, err
}

// keep sets what has been read but not been answered. It doesn't keep much memory for a connection without such bytes.
func (s *stream) keep(b []byte) {
	if len(b) == 0 && cap(s.rest) > longestQuery {
		s.rest = nil
		return
	}
	s.rest = append(s.rest[:0], b...)
}

// SetReadDeadline implements [net.Conn]. A dns.Server sets a deadline for each message that it reads, and one in the past to stop.
func (s *stream) SetReadDeadline(t time.Time) error {
	if t.Before(longAgo) {
		s.stopped.Store(true)
	} else {
		s.deadline, s.last = t, time.Time{}
	}
	return s.Conn.SetReadDeadline(t)
}

// longAgo is later than the deadline that a dns.Server sets to stop.
var longAgo = time.Unix(2, 0)

// extend moves the deadline to the idle timeout after the last reply, as the dns.Server does for the messages that it reads.
func (s *stream) extend() error {
	err := s.Conn.SetReadDeadline(s.last.Add(s.listener.target.server.IdleTimeout))
	if s.stopped.Load() {
		return s.Conn.SetReadDeadline(longAgo)
	}
	return err
}

// expired returns an error of Read, or nil after it has moved the deadline. To move it only when it has passed is cheaper than to do so for
// each message.
func (s *stream) expired(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) && !s.stopped.Load() && time.Since(s.last) < s.listener.target.server.IdleTimeout {
		return s.extend()
	}
	return err
}

// advance answers what has been read, or what it waits for.
func (s *stream) advance() (err error) {
	switch {
	case s.failed != nil:
		return s.failed
	case s.more:
		d := s.listener.desks.Get().(*desk)
		s.work(d, copy(d.in[:], s.rest))
		s.putOff(d.out[:d.written])
		s.account(d)
		s.listener.desks.Put(d)
	case s.raw != nil:
		if s.busy {
			runtime.Gosched() // a client that never pauses lets others go first
		}
		s.busy = true
		err = s.raw.Read(s.readableFunc)
	default:
		err = s.readChunk()
	}
	if err != nil {
		return s.expired(err)
	}
	return s.sendRest()
}

// readable reads and answers what has arrived. It returns false to wait for more. The second batch is usually empty, and the connection waits.
func (s *stream) readable(fd uintptr) bool { return s.batches(fd, 2) }

// arrived answers what has arrived at a connection whose server has stopped.
func (s *stream) arrived(fd uintptr) { s.batches(fd, lastReads) }

// batches answers what is left of the last batch, or reads and answers the next, and so on. It returns false when nothing has arrived. It ends
// after so many at most, so that a client that never pauses neither keeps a desk while others go first, nor keeps the server from stopping.
func (s *stream) batches(fd uintptr, most int) bool {
	d := s.listener.desks.Get().(*desk)
	defer s.listener.desks.Put(d)
	for range most {
		n := copy(d.in[:], s.rest)
		if !s.more {
			got, errno := receive(fd, d.in[n:])
			switch {
			case errno == unix.EINTR:
				continue
			case errno == unix.EAGAIN:
				s.busy = false
				return false
			case errno != 0:
				s.failed = os.NewSyscallError("read", errno)
				return true
			case got == 0:
				s.failed = io.EOF
				return true
			}
			n += got
		}
		s.work(d, n)
		s.send(d, fd)
		s.account(d)
		if s.pass > 0 || s.unsent != nil || s.failed != nil || s.left == 0 {
			return true
		}
	}
	return true
}

// arrivedOverTLS does the same with TLS, which can't be read without waiting.
func (s *stream) arrivedOverTLS() {
	for until := time.Now().Add(lastTime); s.pass == 0 && s.left != 0; {
		now := time.Now()
		if now.After(until) || s.Conn.SetReadDeadline(now.Add(lastPause)) != nil || s.advance() != nil {
			return
		}
	}
}

// readChunk does the same as readable with TLS. While it waits, it has room for a length only.
func (s *stream) readChunk() error {
	if len(s.rest) == 0 {
		s.rest = append(s.rest, make([]byte, lengthSize)...)
		n, err := s.Conn.Read(s.rest)
		s.rest = s.rest[:n]
		return err
	}
	s.chunk = s.listener.chunks.Get().(*[readSize]byte)
	n, err := s.Conn.Read(s.chunk[len(s.rest):])
	if n > 0 {
		d := s.listener.desks.Get().(*desk)
		copy(d.in[:], s.rest)
		s.work(d, len(s.rest)+copy(d.in[len(s.rest):], s.chunk[len(s.rest):][:n]))
		s.putOff(d.out[:d.written])
		s.account(d)
		s.listener.desks.Put(d)
		return nil // an error will come again
	}
	s.release()
	return err
}

// work answers the messages in d.in[:n], in their order, until one is for the chain, or until the replies don't fit into d.out.
func (s *stream) work(d *desk, n int) {
	d.began, d.written, d.answered = time.Now(), 0, 0
	s.more = false
	at := 0
	for s.left != 0 && n-at >= lengthSize {
		size := int(be.Uint16(d.in[at:]))
		message := d.in[at+lengthSize : n]
		if size > longestQuery {
			s.passOn(size)
			break
		}
		if len(message) < size {
			break
		}
		r := s.answer(d, message[:size])
		if r.Size == 0 {
			if s.more = r.full && d.written > 0; !s.more {
				s.passOn(size)
			}
			break
		}
		be.PutUint16(d.out[d.written:], uint16(r.Size)) //nolint:gosec // at most dns.MaxMsgSize
		d.zones[d.answered] = r.zone
		d.written, d.answered = d.written+lengthSize+r.Size, d.answered+1
		at += lengthSize + size
		s.count()
	}
	s.keep(d.in[at:n])
}

// passOn leaves the next message, of that size, to the chain.
func (s *stream) passOn(size int) {
	s.pass = lengthSize + size
	s.count()
}

// count counts a query.
func (s *stream) count() {
	if s.left > 0 {
		s.left--
	}
}

// answer writes the reply to a message behind those before. A message that makes it panic goes to the chain.
func (s *stream) answer(d *desk, message []byte) (r Reply) {
	if len(d.out)-d.written <= lengthSize {
		r.full = true
		return r
	}
	defer recovered(&r)
	r = d.Reply(s.listener.target.answers, d.out[d.written+lengthSize:], message, TCP)
	if r.Size > 0 {
		d.counters.count(&r, len(message), s.ipv6)
	}
	return r
}

// account counts the replies of a batch.
func (s *stream) account(d *desk) {
	if d.answered == 0 {
		return
	}
	d.answers.Add(float64(d.answered))
	now := time.Now()
	d.counters.took(d.zones[:d.answered], now.Sub(d.began))
	s.last = now
	if s.deadline.Sub(now) > s.listener.target.server.IdleTimeout {
		s.deadline = time.Time{}
		if err := s.extend(); err != nil {
			s.failed = err
		}
	}
}

// send writes the replies, and puts off those for which there is no room.
func (s *stream) send(d *desk, fd uintptr) {
	for sent := 0; sent < d.written; {
		n, errno := transmit(fd, d.out[sent:d.written])
		switch {
		case errno == unix.EINTR:
		case errno == unix.EAGAIN:
			s.putOff(d.out[sent:d.written])
			return
		case errno != 0:
			s.failed = os.NewSyscallError("write", errno)
			return
		default:
			sent += n
		}
	}
}

// putOff copies replies, because a client that doesn't read them must not keep a desk.
func (s *stream) putOff(replies []byte) {
	switch {
	case len(replies) == 0:
		s.release()
	case len(replies) <= readSize:
		if s.chunk == nil {
			s.chunk = s.listener.chunks.Get().(*[readSize]byte)
		}
		s.unsent = s.chunk[:copy(s.chunk[:], replies)]
	default:
		s.release()
		s.unsent = append([]byte(nil), replies...)
	}
}

// sendRest writes the replies that were put off. It waits for the client for the write timeout at most.
func (s *stream) sendRest() error {
	if s.unsent == nil {
		return nil
	}
	err := s.SetWriteDeadline(time.Now().Add(s.listener.target.server.WriteTimeout))
	if err == nil {
		_, err = s.Conn.Write(s.unsent)
	}
	s.unsent = nil
	s.release()
	if err == nil {
		err = s.SetWriteDeadline(time.Time{}) // the chain's replies have none
	}
	if err != nil { // a reply may have been cut, and its client would take what follows for the rest
		s.failed = err
		if secure, ok := s.Conn.(*tls.Conn); ok {
			_ = secure.NetConn().Close() // without an alert
		}
	}
	s.last = time.Now()
	return err
}

// release gives the chunk back.
func (s *stream) release() {
	if s.chunk != nil {
		s.listener.chunks.Put(s.chunk)
		s.chunk = nil
	}
}

// Close implements [net.Conn]. If the server has stopped, queries that have arrived get their replies first.
func (s *stream) Close() error {
	if s.listener.closed.Load() && s.pass == 0 && s.failed == nil && s.left != 0 {
		if s.raw != nil {
			_ = s.raw.Control(s.arrived)
			until := time.Now().Add(s.listener.target.server.WriteTimeout)
			for err := s.sendRest(); err == nil && s.more && time.Now().Before(until); {
				err = s.advance() // answers more of what has been read
			}
		} else {
			s.arrivedOverTLS()
		}
	}
	return s.Conn.Close()
}

func receive(fd uintptr, b []byte) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall6(unix.SYS_RECVFROM, fd, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), unix.MSG_DONTWAIT, 0, 0)
	return int(n), errno //nolint:gosec // at most len(b)
}

func transmit(fd uintptr, b []byte) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall6(unix.SYS_SENDTO, fd, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
	return int(n), errno //nolint:gosec // at most len(b)
}
