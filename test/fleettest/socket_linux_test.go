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
	if !owns(os.Getpid(), conn) {
		t.Error("this process has the other end, but it isn't found")
	}
	for _, other := range []int{0, os.Getppid()} {
		if owns(other, conn) {
			t.Errorf("process %d has the other end; want this process to have it", other)
		}
	}
}
