//go:build linux && (amd64 || arm64)

package express

import (
	"context"
	"fmt"
	"net"
	"os"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin/pkg/reuseport"
	"github.com/miekg/dns"
	"golang.org/x/sys/unix"
)

// sockets has one socket per processor, in CoreDNS's SO_REUSEPORT group.
type sockets struct {
	conns []*conn
	own   int // CoreDNS's own sockets, which come first in the group
	// spread is set if the kernel refused the BPF program, so that this is logged once.
	spread  bool
	serving sync.WaitGroup
}

// open binds the sockets and starts reading them. CoreDNS's own sockets are bound already.
func (l *listener) open(own int) error {
	l.own = own
	for range runtime.GOMAXPROCS(0) {
		pc, err := reuseport.ListenPacket("udp", l.addr)
		if err != nil {
			l.abandon()
			return err
		}
		c, err := newConn(l, pc.(*net.UDPConn))
		if err != nil {
			_ = pc.Close()
			l.abandon()
			return err
		}
		l.conns = append(l.conns, c)
	}
	for _, c := range l.conns {
		l.serving.Go(func() { l.serve(c) })
	}
	l.steer(own)
	return nil
}

func (l *listener) abandon() {
	for _, c := range l.conns {
		_ = c.UDPConn.Close()
	}
}

// serve reads a socket until it is stopped. Queries that aren't answered there go to the plugin chain, through a dns.Server like the one
// that CoreDNS creates for its own sockets (dnsserver.Server.ServePacket).
func (l *listener) serve(c *conn) {
	s := &dns.Server{
		PacketConn: c, Net: "udp",
		DecorateWriter: func(w dns.Writer) dns.Writer { return &lateWriter{w, l} },
		Handler: dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
			t := l.enter()
			defer t.leave()
			ctx := context.WithValue(context.Background(), dnsserver.Key{}, t.server)
			ctx = context.WithValue(ctx, dnsserver.LoopKey{}, 0)
			t.server.ServeDNS(ctx, w, r)
		}),
	}
	if err := s.ActivateAndServe(); err != nil && !c.stopped.Load() {
		log.Errorf("express: %s: %v", l.addr, err)
	}
}

// lateWriter uses the writer of the target at the time of writing: the target at the time of reading may have shut down its shed plugin.
type lateWriter struct {
	dns.Writer
	listener *listener
}

func (w *lateWriter) Write(b []byte) (int, error) {
	if decorate := w.listener.target.Load().decorate; decorate != nil {
		return decorate(w.Writer).Write(b)
	}
	return w.Writer.Write(b)
}

// steer sends all packets to the express sockets, one socket per processor. If the kernel refuses the program, it spreads packets over
// these and CoreDNS's sockets, which is slower but correct.
func (l *listener) steer(own int) {
	l.own = own
	boundReads(l.addr)
	if err := attach(l.conns[0].UDPConn, own, len(l.conns)); err != nil && !l.spread {
		l.spread = true
		log.Infof("express: %s: the kernel refuses the BPF program, so that some packets go to CoreDNS's own socket: %v", l.addr, err)
	}
}

// longestRead is how long a read of CoreDNS's own sockets can block in the kernel.
const longestRead = 100 * time.Millisecond

// boundReads bounds the reads of the process's UDP sockets at the port of an address. When a reload hands CoreDNS's own socket to the new
// server, caddy makes it blocking for a moment, for the old server too. A read that the old server starts at that moment blocks in the
// kernel until a packet arrives, and neither a deadline nor Close ends it. No packet arrives, because all are steered to the express
// sockets, so the old server's Stop, and with it the reload, would wait forever. The bound doesn't affect other reads, because they don't
// block.
func boundReads(addr string) {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return
	}
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		log.Warningf("express: %s: a reload may not end before the process is restarted, about one in 15,000: %v", addr, err)
		return
	}
	timeout := unix.NsecToTimeval(longestRead.Nanoseconds())
	for _, entry := range fds {
		fd, err := strconv.Atoi(entry.Name())
		if err == nil && isUDP(fd, port) {
			_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout)
		}
	}
}

// isUDP reports whether a descriptor is a UDP socket at a port.
func isUDP(fd int, port string) bool {
	if protocol, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PROTOCOL); err != nil || protocol != unix.IPPROTO_UDP {
		return false
	}
	switch local, _ := unix.Getsockname(fd); local := local.(type) {
	case *unix.SockaddrInet4:
		return strconv.Itoa(local.Port) == port
	case *unix.SockaddrInet6:
		return strconv.Itoa(local.Port) == port
	}
	return false
}

// linger is how long sockets are still read after packets are steered back to CoreDNS's: some may be in flight.
const linger = 200 * time.Millisecond

// close steers packets back to CoreDNS's sockets, and closes the express sockets when they have answered their remaining packets.
func (l *listener) close() {
	_ = attach(l.conns[0].UDPConn, 0, l.own)
	<-time.After(linger)
	for _, c := range l.conns {
		c.stop()
	}
	closed := make(chan struct{})
	go func() {
		l.serving.Wait()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(grace): // a plugin that doesn't return
	}
}

// attach steers packets to count sockets of the group, beginning at index first, by the processor on which they arrive.
func attach(conn *net.UDPConn, first, count int) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	const cpu = 0xfffff000 + 36 // SKF_AD_OFF + SKF_AD_CPU
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: cpu},
		{Code: unix.BPF_ALU | unix.BPF_MOD | unix.BPF_K, K: uint32(count)}, //nolint:gosec // processors or sockets
		{Code: unix.BPF_ALU | unix.BPF_ADD | unix.BPF_K, K: uint32(first)}, //nolint:gosec // sockets
		{Code: unix.BPF_RET | unix.BPF_A},
	}
	var attachErr error
	err = raw.Control(func(fd uintptr) {
		attachErr = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_REUSEPORT_CBPF, //nolint:gosec // a descriptor
			&unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]})
	})
	if err == nil && attachErr != nil {
		err = fmt.Errorf("SO_ATTACH_REUSEPORT_CBPF: %w", attachErr)
	}
	return err
}
