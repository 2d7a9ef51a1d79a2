// Package freeport finds ports for programs that tests, benchmarks and the demo start.
package freeport

import (
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"sync"
	"testing"
)

// handedOut are the ports that Find has returned. A caller may not listen yet when the next one asks.
var handedOut sync.Map

// Find returns a port of 127.0.0.1 that is free for UDP and TCP: the first free one of those wanted, or any other. It
// chooses other ports below the range that the kernel uses for outgoing connections, because the control planes have
// hundreds of those.
func Find(wanted ...string) (string, error) {
	candidates := slices.DeleteFunc(slices.Clone(wanted), func(port string) bool { return port == "" })
	for range 100 {
		candidates = append(candidates, strconv.Itoa(20000+rand.IntN(12000)))
	}
	var err error
	for _, port := range candidates {
		addr := net.JoinHostPort("127.0.0.1", port)
		var udp net.PacketConn
		var tcp net.Listener
		if udp, err = net.ListenPacket("udp", addr); err != nil {
			continue
		}
		tcp, err = net.Listen("tcp", addr)
		_ = udp.Close()
		if err != nil {
			continue
		}
		_ = tcp.Close()
		if _, before := handedOut.LoadOrStore(port, true); before && !slices.Contains(wanted, port) {
			continue
		}
		return port, nil
	}
	return "", fmt.Errorf("find a free port: %w", err)
}

// Several returns n ports like [Find].
func Several(n int) (ports []string, err error) {
	ports = make([]string, n)
	for i := range ports {
		if ports[i], err = Find(); err != nil {
			return nil, err
		}
	}
	return ports, nil
}

// For is [Find] for a test.
func For(t testing.TB) string {
	t.Helper()
	port, err := Find()
	if err != nil {
		t.Fatal(err)
	}
	return port
}
