package faultproxy

import (
	"net"
	"testing"
	"time"

	"github.com/clusterset/clusterset/test/kube"
)

// A condition that affects no traffic doesn't count, so a test can tell that a fault touched nothing.
func TestLinksKnowWhatTheyDisturbed(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	l, err := NewLink(server.Addr().String(), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	at, err := server.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = at.Close() }()
	arrives := func() {
		t.Helper()
		if _, err := client.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if _, err := at.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
	arrives()

	l.Set(Condition{ToClient: true})
	arrives() // the direction to the server is free
	if n := l.Disturbed(); n != 0 {
		t.Fatalf("%d disturbances, though nothing was on its way to the client", n)
	}
	feels := func(c Condition, traffic func()) {
		t.Helper()
		before := l.Disturbed()
		l.Set(c)
		traffic()
		kube.Eventually(t, func() error {
			if l.Disturbed() == before {
				return errReset
			}
			return nil
		})
		l.Set(Condition{})
	}
	feels(Condition{Delay: time.Millisecond}, arrives)
	feels(Condition{ToServer: true}, func() {
		if _, err := client.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
	})
	feels(Condition{Refused: true}, func() {})
}
