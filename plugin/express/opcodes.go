package express

import (
	"reflect"

	"github.com/coredns/coredns/core/dnsserver"
	"github.com/miekg/dns"
)

// accepts returns which messages a CoreDNS server passes to its plugins, nil for dns.DefaultMsgAcceptFunc. Plugins of any server block at
// the address can add opcodes (dnsserver.Config.AllowOpcode), which the server exposes to nobody: they are read by reflection.
func accepts(s *dnsserver.Server) dns.MsgAcceptFunc {
	allowed := reflect.ValueOf(s).Elem().FieldByName("allowedOpcodes")
	if allowed.Kind() != reflect.Map || allowed.Len() == 0 {
		return nil
	}
	opcodes := map[uint16]bool{}
	for _, key := range allowed.MapKeys() {
		opcodes[uint16(key.Int())] = true //nolint:gosec // opcodes have four bits
	}
	return func(h dns.Header) dns.MsgAcceptAction {
		action := dns.DefaultMsgAcceptFunc(h)
		switch {
		case action != dns.MsgRejectNotImplemented || !opcodes[h.Bits>>11&0xF]:
			return action
		case h.Qdcount != 1:
			return dns.MsgReject
		}
		return dns.MsgAccept
	}
}
