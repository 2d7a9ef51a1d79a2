package fleettest

import (
	"net"
	"os"
	"testing"
)

// Paths tell agents apart by the process that has the other end of a connection.
func TestOwnerOfAConnection(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if got := owner(map[string]int{"stopped": 0, "parent": os.Getppid(), "this": os.Getpid()}, conn); got != "this" {
		t.Errorf("%q has the other end, want this process", got)
	}
	if got := owner(map[string]int{"stopped": 0, "parent": os.Getppid()}, conn); got != "" {
		t.Errorf("%s has the other end, want none of these", got)
	}
}
