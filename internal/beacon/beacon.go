// Package beacon is what clusters measure each other by: a TCP port that names its cluster to whoever connects. Rules D41 to D46 of
// docs/spec/data-path.md.
package beacon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"github.com/clusterset/clusterset/api"
)

const (
	// size is the length of what a beacon sends: more than two of the usual packets, so that a path which loses large ones fails.
	size = 4096
	// mostServed is how many connections are served at a time, and serveFor how long each.
	mostServed = 64
	serveFor   = 5 * time.Second
	// dialFor is how long a dial may last.
	dialFor = 3 * time.Second
	word    = "clusterset "
	// leaving ends the line of an agent that has been told to stop.
	leaving = " leaving"
)

// Serve answers on a listener until it is closed. run tells agents apart. Once ctx ends, the answer says that this agent is leaving.
func Serve(ctx context.Context, l net.Listener, cluster, run string) error {
	line := word + cluster + " " + run
	stays, leaves := message(line), message(line+leaving)
	slots := make(chan struct{}, mostServed)
	for {
		slots <- struct{}{}
		conn, err := l.Accept()
		if err != nil {
			<-slots
			if errors.Is(err, net.ErrClosed) {
				return nil
			}
			if ne := net.Error(nil); errors.As(err, &ne) || errors.Is(err, syscall.EMFILE) {
				<-time.After(100 * time.Millisecond) // out of file descriptors, say
				continue
			}
			return fmt.Errorf("accept: %w", err)
		}
		answer := stays
		if ctx.Err() != nil {
			answer = leaves
		}
		go func() {
			defer func() { <-slots }()
			answerTo(conn, answer)
		}()
	}
}

// message is a line and zeros.
func message(line string) []byte {
	m := make([]byte, size)
	copy(m, line+"\n")
	return m
}

// answerTo writes the answer, which the kernel's buffer has room for, and closes.
func answerTo(conn net.Conn, answer []byte) {
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(serveFor))
	_, _ = conn.Write(answer)
}

// Errors of Dial.
var (
	// ErrWrongCluster means that another cluster answered, or something that is no beacon.
	ErrWrongCluster = errors.New("another cluster answers")
	// ErrRefused means that something on the way refused the connection, or ended it.
	ErrRefused = errors.New("refused")
	// ErrNoAnswer means that nothing answered in time.
	ErrNoAnswer = errors.New("no answer")
)

// Answer is what a beacon has answered.
type Answer struct {
	// RoundTrip is how long the connection took.
	RoundTrip time.Duration
	// Leaving means that the agent has been told to stop: the next one has another address.
	Leaving bool
}

// Dial asks a beacon whether it is that of a cluster. Nothing else of what it says is kept.
func Dial(ctx context.Context, at netip.AddrPort, cluster string) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, dialFor)
	defer cancel()
	began := time.Now()
	conn, err := (&net.Dialer{KeepAlive: -1}).DialContext(ctx, "tcp", at.String())
	if err != nil {
		return Answer{}, plain(err)
	}
	a := Answer{RoundTrip: time.Since(began)}
	defer func() { _ = conn.Close() }()
	deadline, _ := ctx.Deadline()
	_ = conn.SetDeadline(deadline)
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()

	var buf [512]byte
	want := word + cluster + " "
	if _, err := io.ReadFull(conn, buf[:len(want)]); err != nil {
		return Answer{}, plain(err)
	}
	if string(buf[:len(want)]) != want {
		return Answer{}, ErrWrongCluster
	}
	if _, err := io.ReadFull(conn, buf[len(want):]); err != nil {
		return Answer{}, plain(err)
	}
	line, _, _ := bytes.Cut(buf[:], []byte("\n"))
	a.Leaving = bytes.HasSuffix(line, []byte(leaving))
	for left := size - len(buf); left > 0; {
		n, err := conn.Read(buf[:min(left, len(buf))])
		if left -= n; err != nil && left > 0 {
			return Answer{}, plain(err)
		}
	}
	return a, nil
}

// plain says what an error of the network means.
func plain(err error) error {
	switch ne := net.Error(nil); {
	case errors.As(err, &ne) && ne.Timeout(), errors.Is(err, context.Canceled):
		return ErrNoAnswer
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF): // something accepts and says nothing
		return ErrWrongCluster
	}
	return ErrRefused
}

// most is how many addresses of a family a cluster may state.
const most = 4

// Format returns addresses as a cluster states them: at most four of each family. It is never nil.
func Format(all []netip.AddrPort) []string {
	words := []string{}
	for _, a := range bounded(all) {
		words = append(words, a.String())
	}
	return words
}

// Parse reads what Format wrote. It leaves out what is no address with a port, and what is too many, and returns how many these are.
func Parse(words []string) (all []netip.AddrPort, ignored int) {
	for _, w := range words {
		if a, err := netip.ParseAddrPort(w); err == nil && a.Port() > 0 && a.Addr().Zone() == "" {
			all = append(all, netip.AddrPortFrom(a.Addr().Unmap(), a.Port()))
		}
	}
	all = bounded(all)
	return all, len(words) - len(all)
}

func bounded(all []netip.AddrPort) []netip.AddrPort {
	var some []netip.AddrPort
	n := map[bool]int{} // by whether they are IPv4
	for _, a := range all {
		four := a.Addr().Is4()
		n[four]++
		if n[four] <= most {
			some = append(some, a)
		}
	}
	return some
}

// Allowed reports whether an address may be dialled (D44): within the networks of its cluster, if it has any, not within ours, and none of
// the addresses given.
func Allowed(a netip.Addr, theirs, ours []netip.Prefix, not []netip.Addr) bool {
	a = a.Unmap()
	if !a.IsValid() || api.CheckAddress(a) != nil {
		return false
	}
	if slices.ContainsFunc(not, func(n netip.Addr) bool { return n.Unmap() == a }) {
		return false
	}
	return (len(theirs) == 0 || within(a, theirs)) && !within(a, ours)
}

func within(a netip.Addr, networks []netip.Prefix) bool {
	return slices.ContainsFunc(networks, func(n netip.Prefix) bool { return n.Contains(a) })
}
