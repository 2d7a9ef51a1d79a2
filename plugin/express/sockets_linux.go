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

// sockets are as many as there are processors, in CoreDNS's SO_REUSEPORT group.
type sockets struct {
	conns []*conn
	own   int // CoreDNS's own sockets, which come first in the group
	// spread is set where the kernel refused the BPF program, which is said once.
	spread  bool
	serving sync.WaitGroup
}

// open binds the sockets and begins to read them. CoreDNS's own, so many, are bound already.
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

// serve reads a socket until it is stopped. What isn't answered there goes to the plugin chain, by a dns.Server like the one that CoreDNS
// makes for its own sockets (dnsserver.Server.ServePacket).
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

// lateWriter writes as the target at the time of writing does: the one at the time of reading may have shut down its shed.
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

// steer sends all packets to our sockets, each processor's to one. Where the kernel refuses that, it spreads them over ours and
// CoreDNS's: slower, never wrong.
func (l *listener) steer(own int) {
	l.own = own
	boundReads(l.addr)
	if err := attach(l.conns[0].UDPConn, own, len(l.conns)); err != nil && !l.spread {
		l.spread = true
		log.Infof("express: %s: the kernel refuses the BPF program, so that some packets go to CoreDNS's own socket: %v", l.addr, err)
	}
}

// longestRead is how long a read of CoreDNS's own sockets can sleep in the kernel.
const longestRead = 100 * time.Millisecond

// boundReads bounds the reads of the process's UDP sockets at the port of an address. When a reload hands CoreDNS's own socket to the new server,
// caddy makes it blocking for a moment, for the old server too. A read that the old one begins then sleeps in the kernel, where no deadline and no Close
// ends it, until a packet comes. None comes, since all are steered to ours, and the old server's Stop would wait for ever, and with it the reload.
// Reads that don't block, which are all others, know no such bound.
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

// linger is how long sockets are read on after their packets are given back: some may be on their way to them.
const linger = 200 * time.Millisecond

// close gives the packets back to CoreDNS's sockets, and closes ours when they have answered what they hold.
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
	case <-time.After(grace): // a plugin that doesn't come to an end
	}
}

// attach sends packets to count sockets of the group, the first of them at the index given, by the processor that they arrive on.
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
