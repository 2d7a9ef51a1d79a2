package freeport

import (
	"net"
	"testing"
)

func TestFindsThePortThatIsWanted(t *testing.T) {
	free := For(t)
	if got, err := Find("", free); err != nil || got != free {
		t.Errorf("want %s, got %s, %v", free, got, err)
	}
	taken, err := net.ListenPacket("udp", net.JoinHostPort("127.0.0.1", free))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	if got, err := Find(free); err != nil || got == free {
		t.Errorf("%s is taken, got %s, %v", free, got, err)
	}
}
