package fleet

import (
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"sync"
)

// handedOut are the ports that FreePort returned. The first caller may not listen yet when the next one asks.
var handedOut sync.Map

// FreePort returns a port of 127.0.0.1 that is free for UDP and TCP: the first free one of those wanted, or any other. It
// searches below the range that the kernel uses for outgoing connections: the control planes have hundreds.
func FreePort(wanted ...string) (string, error) {
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
