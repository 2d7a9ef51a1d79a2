package express

import (
	"net"
	"testing"
	"time"

	"github.com/coredns/coredns/core/dnsserver"
)

// caddy begins to serve in goroutines, so a reload right behind another stops a server before, while or after it begins. CoreDNS's own server
// would then read its sockets for ever.
func TestAServerStoppedWhileItBeginsServesNothing(t *testing.T) {
	for i := range 100 {
		coredns, err := dnsserver.NewServer("dns://127.0.0.1:53", []*dnsserver.Config{config(testZone, "53", "127.0.0.1")})
		if err != nil {
			t.Fatal(err)
		}
		s := newServer(coredns, &Plan{packets: map[*dnsserver.Server]net.PacketConn{}})
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		pc, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 { // the goroutines weren't scheduled yet
			if err := s.Stop(); err != nil {
				t.Fatal(err)
			}
		}
		ended := make(chan struct{}, 2)
		go func() { _ = s.Serve(l); ended <- struct{}{} }()
		go func() { _ = s.ServePacket(pc); ended <- struct{}{} }()
		if err := s.Stop(); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			select {
			case <-ended:
			case <-time.After(2 * time.Minute):
				t.Fatal("the server still serves two minutes after Stop")
			}
		}
		if _, err := pc.WriteTo(nil, pc.LocalAddr()); err == nil {
			t.Error("the socket is still open")
		}
	}
}
