package beacon

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"
)

func listen(t *testing.T) (net.Listener, netip.AddrPort) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l, netip.MustParseAddrPort(l.Addr().String())
}

// Rules D41 and D46 of docs/spec/data-path.md.
func TestBeaconNamesItsCluster(t *testing.T) {
	l, at := listen(t)
	ended := make(chan error, 1)
	ctx, leave := context.WithCancel(t.Context())
	go func() { ended <- Serve(ctx, l, "beijing", "1234") }()
	if a, err := Dial(t.Context(), at, "beijing"); err != nil || a.RoundTrip <= 0 || a.Leaving {
		t.Errorf("%v, %v", a, err)
	}
	leave()
	if a, err := Dial(t.Context(), at, "beijing"); err != nil || a.RoundTrip <= 0 || !a.Leaving {
		t.Errorf("leaving: %v, %v", a, err)
	}
	for _, other := range []string{"beijin", "beijing.east", "shanghai"} {
		if _, err := Dial(t.Context(), at, other); !errors.Is(err, ErrWrongCluster) {
			t.Errorf("%s: %v", other, err)
		}
	}
	_ = l.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := Dial(t.Context(), at, "beijing"); !errors.Is(err, ErrRefused) {
		t.Error(err)
	}
}

// More connections than are served at a time wait; they neither fail nor take memory here.
func TestBeaconWithManyClients(t *testing.T) {
	l, at := listen(t)
	go func() { _ = Serve(t.Context(), l, "beijing", "1234") }()
	for range 2 * mostServed { // of those that say nothing and don't close
		conn, err := net.Dial("tcp", at.String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
	}
	for range 20 { // the answer fits into the kernel's buffer, so none of them holds a slot
		if _, err := Dial(t.Context(), at, "beijing"); err != nil {
			t.Fatal(err)
		}
	}
}

// endless writes the same until the other side has gone.
func endless(c net.Conn, b []byte) {
	var err error
	for err == nil {
		_, err = c.Write(b)
	}
}

// What a hostile beacon does costs a dial at most its time, and 512 bytes.
func TestHostileBeacons(t *testing.T) {
	full := make([]byte, size)
	copy(full, "clusterset beijing 1\n")
	for name, c := range map[string]struct {
		answer func(net.Conn)
		want   error
	}{
		"nothing": {func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }, ErrNoAnswer},
		"closes":  {func(net.Conn) {}, ErrWrongCluster},
		"endless": {func(c net.Conn) {
			endless(c, full)
		}, nil},
		"endless line": {func(c net.Conn) {
			endless(c, []byte(strings.Repeat("x", size)))
		}, ErrWrongCluster},
		"slow": {func(c net.Conn) {
			for i := range full {
				if _, err := c.Write(full[i : i+1]); err != nil {
					return
				}
				<-time.After(10 * time.Millisecond)
			}
		}, ErrNoAnswer},
		"only small packets": {func(c net.Conn) {
			_, _ = c.Write(full[:1000])
			_, _ = io.Copy(io.Discard, c)
		}, ErrNoAnswer},
		"cut off":    {func(c net.Conn) { _, _ = c.Write(full[:1000]) }, ErrWrongCluster},
		"HTTP":       {func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n") }, ErrWrongCluster},
		"no padding": {func(c net.Conn) { _, _ = io.WriteString(c, "clusterset beijing 1\n") }, ErrWrongCluster},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, at := listen(t)
			go func() {
				conn, err := l.Accept()
				if err == nil {
					c.answer(conn)
					_ = conn.Close()
				}
			}()
			began := time.Now()
			if _, err := Dial(t.Context(), at, "beijing"); !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
			if took := time.Since(began); took > dialFor+5*time.Second {
				t.Errorf("took %s", took)
			}
		})
	}
}

func TestDialEndsWithItsContext(t *testing.T) {
	_, at := listen(t) // nobody accepts
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	if _, err := Dial(ctx, at, "beijing"); !errors.Is(err, ErrNoAnswer) {
		t.Error(err)
	}
}

// Rule D42.
func TestAddressesInAReport(t *testing.T) {
	for stated, want := range map[string]string{
		"":                             "",
		"10.1.0.1:9471 [fd00::1]:9471": "10.1.0.1:9471 [fd00::1]:9471",
		"10.0.0.1:1 10.0.0.2:1 10.0.0.3:1 [fd00::1]:1 10.0.0.4:1 10.0.0.5:1":                   "10.0.0.1:1 10.0.0.2:1 10.0.0.3:1 [fd00::1]:1 10.0.0.4:1",
		"name:9471 10.0.0.1 10.0.0.1:0 10.0.0.1:99999 [fe80::1%eth0]:1 10.0.0.1:1, 10.0.0.9:2": "10.0.0.9:2",
		"[::ffff:10.0.0.1]:1": "10.0.0.1:1",
	} {
		words := strings.Fields(stated)
		all, ignored := Parse(words)
		if got := strings.Join(Format(all), " "); got != want || len(all)+ignored != len(words) {
			t.Errorf("%.60q: %q and %d ignored, want %q", stated, got, ignored, want)
		}
	}
}

// Rule D44.
func TestAllowed(t *testing.T) {
	networks := func(s ...string) (all []netip.Prefix) {
		for _, n := range s {
			all = append(all, netip.MustParsePrefix(n))
		}
		return all
	}
	hub := []netip.Addr{netip.MustParseAddr("10.9.0.1")}
	for _, c := range []struct {
		addr         string
		theirs, ours []netip.Prefix
		want         bool
	}{
		{"10.1.0.1", nil, nil, true},
		{"10.1.0.1", networks("10.1.0.0/16"), networks("10.2.0.0/16"), true},
		{"10.3.0.1", networks("10.1.0.0/16", "fd00::/64"), nil, false},
		{"fd00::1", networks("10.1.0.0/16", "fd00::/64"), nil, true},
		{"10.2.0.1", nil, networks("10.2.0.0/16"), false},
		{"10.2.0.1", networks("10.0.0.0/8"), networks("10.2.0.0/16"), false},
		{"10.9.0.1", networks("10.0.0.0/8"), nil, false},
		{"::ffff:10.9.0.1", nil, nil, false},
		{"127.0.0.1", networks("127.0.0.0/8"), nil, false},
		{"169.254.169.254", networks("0.0.0.0/0"), nil, false},
		{"224.0.0.1", nil, nil, false},
		{"255.255.255.255", nil, nil, false},
		{"0.0.0.0", nil, nil, false},
		{"::", nil, nil, false},
		{"::1", nil, nil, false},
		{"fe80::1", nil, nil, false},
		{"ff02::1", nil, nil, false},
	} {
		if got := Allowed(netip.MustParseAddr(c.addr), c.theirs, c.ours, hub); got != c.want {
			t.Errorf("%s: %t with %v and %v", c.addr, got, c.theirs, c.ours)
		}
	}
}
