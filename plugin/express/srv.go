package express

import (
	"net/netip"
	"strings"

	"github.com/miekg/dns"

	"github.com/clusterset/clusterset/internal/index"
)

// srvSize is the size of an SRV record's data (RFC 2782) without its target.
const srvSize = 6

// targets has the targets of a reply's SRV records, in the order of the records, and their addresses.
type targets struct {
	names []targetName
	addrs []targetAddr
	// nNames and nAddrs are the numbers of names and addresses.
	nNames, nAddrs int
}

// targetName is the name of one target.
type targetName struct {
	host     int32  // as index.Target has it
	at, size uint16 // of the name in the reply, where it is first written
	owner    uint16 // where a pointer to the name leads
}

type targetAddr struct {
	name uint16 // its index
	addr netip.Addr
}

// srv writes an answer with SRV records, and their targets' addresses as the additional section. It returns false if the reply doesn't fit,
// or would have to omit records.
func (w *writer) srv(a *Answers, s *Responder, l *index.Lookup) bool {
	itself := w.query.name // the service's own name, in wire form
	if l.Labels != "" {
		itself = itself[len(l.Labels)+1:]
	}
	n := l.Targets.Len()
	if a.MaxAnswers > 0 && n > a.MaxAnswers || !w.measure(a, s, l, len(itself)) {
		return false
	}
	owner := w.query.name
	compressed := w.compressed(w.length + w.optSize())
	if compressed {
		owner = toQuestion[:]
	}
	w.start(dns.RcodeSuccess, n, 0)
	be.PutUint16(w.out[10:], uint16(s.targets.nAddrs+w.optSize()/optSize)) //nolint:gosec // at most len(addrs)
	next := -1
	for i := range n {
		t := l.Targets.At(i)
		another := next < 0 || s.targets.names[next].host != t.Host
		if another {
			next++
		}
		name := &s.targets.names[next]
		w.record(owner, dns.TypeSRV, a.TTL, srvSize+int(name.size))
		b := w.out[w.at : w.at+srvSize]
		be.PutUint16(b, 0)
		be.PutUint16(b[2:], l.SRVWeight(t, n, false))
		be.PutUint16(b[4:], t.Port)
		w.at += srvSize
		switch {
		case !another:
			w.at += copy(w.out[w.at:], w.out[name.at:name.at+name.size])
		case t.Host == index.ServiceItself:
			name.at, name.owner = uint16(w.at), uint16(headerSize+len(w.query.name)-len(itself)) //nolint:gosec // below len(out)
			w.at += copy(w.out[w.at:], itself)
		default:
			name.at = uint16(w.at) //nolint:gosec // below len(out)
			if compressed {
				name.owner = s.targets.pointer(l, next, name.at)
			}
			if !w.host(l.Set.TargetHosts()[t.Host].Key, itself) {
				return false
			}
		}
	}
	w.additional(a, s, compressed)
	return true
}

// measure collects the names and addresses of the targets, and sets the length of the reply. It returns false if the reply doesn't fit, after work that is
// bounded by what fits.
func (w *writer) measure(a *Answers, s *Responder, l *index.Lookup, itself int) bool {
	ts := &s.targets
	ts.nNames, ts.nAddrs = 0, 0
	w.length = w.query.end
	least := w.length + w.optSize() // compressed
	for i := range l.Targets.Len() {
		t := l.Targets.At(i)
		if ts.nNames == 0 || ts.names[ts.nNames-1].host != t.Host {
			if ts.nNames == len(ts.names) {
				return false
			}
			name, addrs := itself, l.Set.Addrs
			if t.Host != index.ServiceItself {
				host := &l.Set.TargetHosts()[t.Host]
				name, addrs = len(host.Key)+1+itself, host.Addrs
			}
			if name > maxNameSize || len(addrs) > len(ts.addrs)-ts.nAddrs {
				return false
			}
			if v4, v6 := addrs.Split(); t.Host == index.ServiceItself && a.MaxAnswers > 0 && max(len(v4), len(v6)) > a.MaxAnswers {
				return false
			}
			for _, addr := range addrs {
				size := recordSize + addr.BitLen()/8
				w.length, least = w.length+name+size, least+len(toQuestion)+size
				ts.addrs[ts.nAddrs] = targetAddr{uint16(ts.nNames), addr} //nolint:gosec // below len(ts.names)
				ts.nAddrs++
			}
			ts.names[ts.nNames] = targetName{host: t.Host, size: uint16(name)} //nolint:gosec // at most maxNameSize
			ts.nNames++
		}
		size := recordSize + srvSize + int(ts.names[ts.nNames-1].size)
		w.length, least = w.length+len(w.query.name)+size, least+len(toQuestion)+size
		if w.via == TCP {
			least = w.length + w.optSize()
		}
		if least > min(w.size, len(w.out)) {
			return false
		}
	}
	total := w.length + w.optSize()
	return w.compressed(total) || total <= len(w.out)
}

// maxNameSize is the longest name on the wire (RFC 1035 section 2.3.4).
const maxNameSize = 255

// pointer returns the offset for a compression pointer to the name of target i, which is about to be written: where dns.Msg.Pack first saw
// the name. That may be the end of another target's name, as with the hosts a.b and b.
func (ts *targets) pointer(l *index.Lookup, i int, at uint16) uint16 {
	hosts := l.Set.TargetHosts()
	key := hosts[ts.names[i].host].Key
	for _, before := range ts.names[:i] {
		if before.host == index.ServiceItself {
			continue
		}
		if longer := hosts[before.host].Key; len(longer) > len(key) && strings.HasSuffix(longer, key) && longer[len(longer)-len(key)-1] == '.' {
			return before.at + uint16(len(longer)-len(key)) //nolint:gosec // less than a name
		}
	}
	return at
}

// host writes the name of a host of a service, in lower case. It returns false for a name with unusual characters.
func (w *writer) host(key string, service []byte) bool {
	label := w.at // where the length of the label goes
	w.at++
	for i := 0; i <= len(key); i++ {
		if i == len(key) || key[i] == '.' {
			size := w.at - label - 1
			if size == 0 || size > 63 {
				return false
			}
			w.out[label] = byte(size)
			label = w.at
		} else if plain[key[i]] == 0 {
			return false
		} else {
			w.out[w.at] = key[i]
		}
		w.at++
	}
	w.at = label
	for _, c := range service {
		if 'A' <= c && c <= 'Z' { // the length of a label is never in this range
			c += 'a' - 'A'
		}
		w.out[w.at] = c
		w.at++
	}
	return true
}

// additional writes the addresses of the targets.
func (w *writer) additional(a *Answers, s *Responder, compressed bool) {
	for _, i := range s.shuffled(s.targets.nAddrs, a.Shuffle) {
		entry := &s.targets.addrs[i]
		name := &s.targets.names[entry.name]
		owner := w.out[name.at : name.at+name.size]
		var pointer [2]byte
		if compressed {
			be.PutUint16(pointer[:], 0xc000|name.owner)
			owner = pointer[:]
		}
		w.address(owner, a.TTL, entry.addr)
	}
}
