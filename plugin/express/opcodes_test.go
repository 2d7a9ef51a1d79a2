package express

import (
	"testing"

	"github.com/coredns/coredns/core/dnsserver"
	"github.com/miekg/dns"
)

// A message that CoreDNS would pass to a plugin reaches it with the express path too.
func TestOpcodesOfOtherBlocksAreAccepted(t *testing.T) {
	server := func(opcodes ...int) *dnsserver.Server {
		mine, other := config(testZone, "53", "127.0.0.1"), config("example.org.", "53", "127.0.0.1")
		for _, opcode := range opcodes {
			other.AllowOpcode(opcode)
		}
		s, err := dnsserver.NewServer("dns://127.0.0.1:53", []*dnsserver.Config{mine, other})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	if accepts(server()) != nil {
		t.Error("without further opcodes, the default isn't used")
	}
	accept := accepts(server(dns.OpcodeUpdate))
	if accept == nil {
		t.Fatal("the opcode of another block isn't seen: did dnsserver.Server change?")
	}
	header := func(opcode int, questions uint16) dns.Header {
		return dns.Header{Bits: uint16(opcode) << 11, Qdcount: questions} //nolint:gosec // four bits
	}
	for _, c := range []struct {
		what string
		h    dns.Header
		want dns.MsgAcceptAction
	}{
		{"a query", header(dns.OpcodeQuery, 1), dns.MsgAccept},
		{"an update", header(dns.OpcodeUpdate, 1), dns.MsgAccept},
		{"an update of two zones", header(dns.OpcodeUpdate, 2), dns.MsgReject},
		{"another opcode", header(dns.OpcodeStatus, 1), dns.MsgRejectNotImplemented},
		{"a reply", dns.Header{Bits: 1<<15 | uint16(dns.OpcodeUpdate)<<11, Qdcount: 1}, dns.MsgIgnore},
	} {
		if got := accept(c.h); got != c.want {
			t.Errorf("%s: got %v, want %v", c.what, got, c.want)
		}
	}
}
