package express

import (
	"bytes"
	"crypto/tls"
	"errors"
	golog "log"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/coredns/caddy"
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
		s := newServer(coredns, &Plan{})
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

// What the express path needs of caddy and CoreDNS but can't ask for, it reads by reflection. If a version of theirs has no such field, or one
// of another type, the log has the reason, and the express path is off.
func TestAFieldThatIsMissingTurnsTheExpressPathOff(t *testing.T) {
	type today struct{ context *net.TCPAddr }
	type renamed struct{ ctx *net.TCPAddr }
	type changed struct{ context net.TCPAddr }
	if found, err := field[*net.TCPAddr](&today{&net.TCPAddr{Port: 53}}, "context"); err != nil || (*found).Port != 53 {
		t.Errorf("got %v, %v", found, err)
	}
	for _, err := range []error{missing(&renamed{nil}), missing(&changed{net.TCPAddr{}})} {
		if err == nil {
			t.Error("a field that isn't there was found")
			continue
		}
		out := new(bytes.Buffer)
		golog.SetOutput(out)
		p := &Plan{hidden: err, targets: map[string]*target{}}
		p.Want("dns://:53", &Answers{}, nil)
		golog.SetOutput(os.Stderr)
		if p.targets["dns://:53"] != nil {
			t.Errorf("%v: the express path is on", err)
		}
		if want := "express: off at dns://:53: " + err.Error(); !strings.Contains(out.String(), want) {
			t.Errorf("the log has %q, want %q", out, want)
		}
	}
	_, instance := field[caddy.Context](new(caddy.Instance), "context")
	_, config := field[*tls.Config](new(dnsserver.ServerTLS), "tlsConfig")
	_, listener := field[net.Listener](new(caddy.ServerListener), "listener")
	_, packet := field[net.PacketConn](new(caddy.ServerListener), "packet")
	if err := errors.Join(instance, config, listener, packet); err != nil {
		t.Error(err)
	}
}

func missing[S any](of *S) error {
	_, err := field[*net.TCPAddr](of, "context")
	return err
}
