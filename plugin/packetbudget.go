package clusterset

import (
	"github.com/coredns/coredns/request"
	"github.com/miekg/dns"

	"github.com/clusterset/clusterset/internal/index"
	"github.com/clusterset/clusterset/plugin/express"
)

// The smallest sizes of records in a packet, in bytes: their owner is a compression pointer of two bytes.
const (
	sizeA    = 2 + 10 + 4
	sizeAAAA = 2 + 10 + 16
	sizeNS   = 2 + 10 + 2
	sizeSRV  = 2 + 10 + 6 // plus the target, which is never compressed
	sizeOPT  = 11         // without options
)

var sizes = [...]int{index.TypeA: sizeA, index.TypeAAAA: sizeAAAA, index.TypeSRV: sizeSRV, index.TypeNS: sizeNS}

// packetBudget is the space left in a reply's packet. It bounds the work for a query by what can be sent back. It counts each record's
// smallest size, so a reply that fits is never cut.
type packetBudget struct {
	w    dns.ResponseWriter
	r    *dns.Msg
	max  int // 0 until needed: most replies fit into any packet
	used int
	// steady is set for a transfer, which has the same records every time.
	steady bool
}

// newPacketBudget counts the header and the question.
func newPacketBudget(w dns.ResponseWriter, r *dns.Msg) packetBudget {
	return packetBudget{w: w, r: r, used: 12 + 1 + 4}
}

// counts are how many records to build: all, or one more than fit, so that the room is full.
type counts struct {
	of              [len(sizes)]int // by type
	answers, extras int
	names           int // the length of the names of the hosts that SRV records point to
}

// count counts the records of an answer. service is the length of the service's own name.
func (m *packetBudget) count(l *index.Lookup, answer *index.Answer, service int) (n counts) {
	target := 0 // the length of an SRV record's
	for rec := range answer.All {
		if m.full() {
			break
		}
		m.used += sizes[rec.Type]
		if rec.Type == index.TypeSRV {
			target = service
			if rec.Host != index.ServiceItself {
				target += len(l.Set.TargetHosts()[rec.Host].Key) + len(".")
				if int(rec.Target) == n.of[index.TypeSRV] {
					n.names += target
				}
			}
			m.used += target
		}
		n.of[rec.Type]++
		n.extras++
	}
	n.answers = min(n.extras, answer.Len())
	n.extras -= n.answers
	return n
}

// full reports whether more was counted than fits.
func (m *packetBudget) full() bool {
	if m.used <= dns.MinMsgSize {
		return false
	}
	if m.max == 0 {
		m.max = sizeOf(m.w, m.r)
	}
	return m.used > m.max
}

// cut cuts a reply over UDP that would be longer than express.MaxUDP. CoreDNS cuts replies too, but to what the client accepts, which
// may be more.
func (m *packetBudget) cut(reply *dns.Msg) {
	if m.max != express.MaxUDP {
		return
	}
	room := express.MaxUDP
	if reply.IsEdns0() == nil {
		room -= sizeOPT // CoreDNS appends it
	}
	reply.Truncate(room)
}

// sizeOf returns how many bytes a reply can have, counted as CoreDNS does when it truncates.
func sizeOf(w dns.ResponseWriter, r *dns.Msg) int {
	state := request.Request{W: w, Req: r}
	if state.Proto() == "udp" {
		return min(state.Size(), express.MaxUDP)
	}
	return state.Size()
}
