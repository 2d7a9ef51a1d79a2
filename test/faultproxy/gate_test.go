package faultproxy

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// Large answers are lost to one client of a Gate only, and arrive once its link is good again.
func TestGatesDisturbOneClient(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	large := strings.Repeat("x", 4096)
	go func() {
		for {
			conn, err := server.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, large)
			_ = conn.Close()
		}
	}()
	clients := make(chan string, 1)
	g, err := NewGate("127.0.0.1:0", server.Addr().String(), 1, func(net.Conn) string { return <-clients })
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	dial := func(client string) net.Conn {
		t.Helper()
		clients <- client
		conn, err := net.Dial("tcp", g.Addr())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	whole := func(conn net.Conn) {
		t.Helper()
		if got, err := io.ReadAll(conn); err != nil || string(got) != large {
			t.Errorf("got %d bytes, %v", len(got), err)
		}
	}
	g.From("far").Set(Condition{Largest: 1200})
	far := dial("far")
	_ = far.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	if n, err := far.Read(make([]byte, 1)); err == nil {
		t.Errorf("%d bytes of a large piece arrived", n)
	}
	whole(dial("near"))
	if n := g.From("near").Disturbed(); n != 0 {
		t.Errorf("%d disturbances of the other client", n)
	}
	if g.From("far").Disturbed() == 0 {
		t.Error("the link doesn't know that it held something up")
	}
	g.From("far").Set(Condition{})
	_ = far.SetReadDeadline(time.Time{})
	whole(far)
}
