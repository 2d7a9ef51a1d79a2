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
	sizeSRV  = 2 + 10 + 6 // plus the target, which is never compressed
	sizeOPT  = 11         // without options
)

// room is the space left in a reply's packet. It bounds the work for a query by what can be sent back. It counts each record's
// smallest size, so a reply that fits is never cut.
type room struct {
	w    dns.ResponseWriter
	r    *dns.Msg
	max  int // 0 until needed: most replies fit into any packet
	used int
	// steady is set for a transfer, which has the same records every time.
	steady bool
}

// newRoom counts the header and the question.
func newRoom(w dns.ResponseWriter, r *dns.Msg) room { return room{w: w, r: r, used: 12 + 1 + 4} }

// take counts n records of at least size bytes each and returns how many of them to build: all, or one more than fit, so that
// full is true.
func (m *room) take(n, size int) int {
	m.used += n * size
	if m.full() {
		return n - min(n, (m.used-m.max-1)/size)
	}
	return n
}

// takeAddrs does the same for the addresses of an additional section.
func (m *room) takeAddrs(v4, v6 index.Addrs) (index.Addrs, index.Addrs) {
	v4 = v4[:m.take(len(v4), sizeA)]
	return v4, v6[:m.take(len(v6), sizeAAAA)]
}

// full reports whether more was counted than fits.
func (m *room) full() bool {
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
func (m *room) cut(reply *dns.Msg) {
	if m.max == express.MaxUDP {
		reply.Truncate(express.MaxUDP - sizeOPT) // CoreDNS appends the OPT record
	}
}

// sizeOf returns how many bytes a reply can have, counted as CoreDNS does when it truncates.
func sizeOf(w dns.ResponseWriter, r *dns.Msg) int {
	state := request.Request{W: w, Req: r}
	if state.Proto() == "udp" {
		return min(state.Size(), express.MaxUDP)
	}
	return state.Size()
}
