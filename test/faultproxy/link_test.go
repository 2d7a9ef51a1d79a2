package faultproxy

import (
	"errors"
	"net"
	"testing"
	"time"

	"github.com/clusterset/clusterset/test/kube"
)

// A condition disturbs one client's traffic in one direction, late bytes arrive in the end, and a link knows what it disturbed: a test can tell
// that a fault touched nothing.
func TestLinksDisturbOneClient(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	clients := make(chan string, 1)
	g, err := NewGate("127.0.0.1:0", server.Addr().String(), 1, func(net.Conn) string { return <-clients })
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	dial := func(name string) (client, at net.Conn) {
		clients <- name
		client, err := net.Dial("tcp", g.Addr())
		if err != nil {
			t.Fatal(err)
		}
		if at, err = server.Accept(); err != nil {
			t.Fatal(err)
		}
		return client, at
	}
	send := func(from net.Conn) {
		if _, err := from.Write([]byte("xyz")); err != nil {
			t.Fatal(err)
		}
	}
	arrives := func(to net.Conn) {
		if _, err := to.Read(make([]byte, 4)); err != nil {
			t.Fatal(err)
		}
	}
	far, atFar := dial("far")
	near, atNear := dial("near")
	link := g.From("far")
	for name, c := range map[string]struct {
		condition Condition
		free      bool // what the client sends arrives at once
		disturbed bool
	}{
		"good":      {Condition{}, true, false},
		"to client": {Condition{ToClient: true}, true, false},
		"to server": {Condition{ToServer: true}, false, true},
		"delay":     {Condition{Delay: time.Millisecond}, true, true},
		"largest":   {Condition{Largest: 2}, false, true},
	} {
		before := link.Disturbed()
		link.Set(c.condition)
		send(far)
		send(near)
		arrives(atNear)
		if c.free {
			arrives(atFar)
		}
		kube.Eventually(t, func() error {
			if n := link.Disturbed() - before; (n > 0) != c.disturbed {
				return errors.New("disturbed or not")
			}
			return nil
		})
		_ = atFar.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
		if _, err := atFar.Read(make([]byte, 1)); err == nil {
			t.Errorf("%s: a byte arrived that is held up", name)
		}
		_ = atFar.SetReadDeadline(time.Time{})
		link.Set(Condition{})
		if !c.free {
			arrives(atFar)
		}
	}
	before := link.Disturbed()
	link.Set(Condition{Refused: true})
	if _, err := far.Read(make([]byte, 1)); err == nil || link.Disturbed() == before {
		t.Errorf("not refused: %v", err)
	}
	if n := g.From("near").Disturbed(); n != 0 {
		t.Errorf("%d disturbances of the other client", n)
	}
}
