package express

import (
	"math/rand/v2"
	"strings"

	"github.com/miekg/dns"

	"github.com/clusterset/clusterset/internal/index"
)

// srvSize is the size of an SRV record's data (RFC 2782) without its target.
const srvSize = 6

// maxNameSize is the longest name on the wire (RFC 1035 section 2.3.4).
const maxNameSize = 255

// targetName is the name that an SRV record points to.
type targetName struct {
	at, size uint16 // of the name in the reply, where it is first written
	owner    uint16 // where a pointer to the name leads
}

// answer writes a reply with an answer. It returns false if the reply doesn't fit, or would have to omit records.
func (w *writer) answer(answer *index.Answer) bool {
	w.itself = w.query.name
	if labels := w.lookup.Labels; labels != "" {
		w.itself = w.itself[len(labels)+1:]
	}
	n, answers := w.measure(answer), answer.Len()
	if n == 0 {
		return false
	}
	w.owner = w.query.name
	if w.compressed = w.compresses(w.length + w.optSize()); w.compressed {
		w.owner = toQuestion[:]
	}
	w.start(dns.RcodeSuccess, answers, 0)
	be.PutUint16(w.out[10:], uint16(n-answers+w.optSize()/optSize)) //nolint:gosec // at most len(records)
	records, targets := w.records[:n], 0
	for ; targets < n && records[targets].Type == index.TypeSRV; targets++ {
		if !w.srv(targets) {
			return false
		}
	}
	addrs := records[targets:]
	if w.answers.Shuffle {
		rand.Shuffle(len(addrs), func(i, j int) { addrs[i], addrs[j] = addrs[j], addrs[i] })
	}
	for i := range addrs {
		if targets > 0 {
			w.owner = w.ownerOf(&addrs[i])
		}
		w.address(w.owner, addrs[i].Addr)
	}
	return true
}

// ownerOf returns the owner of a target's address.
func (w *writer) ownerOf(r *index.Record) []byte {
	to := &w.targets[r.Target]
	if !w.compressed {
		return w.out[to.at : to.at+to.size]
	}
	be.PutUint16(w.pointer[:], 0xc000|to.owner)
	return w.pointer[:]
}

// measure collects the records and returns their number. It sets the length of the reply. If the reply doesn't fit it returns 0, after work
// that is bounded by what fits.
func (w *writer) measure(answer *index.Answer) (n int) {
	w.length = w.query.end
	least, most := w.length+w.optSize(), min(w.size, len(w.out)) // compressed
	for r := range answer.All {
		owner, size := len(w.query.name), recordSize+r.Addr.BitLen()/8
		switch {
		case r.Type != index.TypeSRV && n >= answer.Len():
			owner = int(w.targets[r.Target].size)
		case r.Type == index.TypeSRV:
			if int(r.Target) == n {
				name := len(w.itself)
				if r.Host != index.ServiceItself {
					name += len(w.lookup.Set.TargetHosts()[r.Host].Key) + len(".")
				}
				if name > maxNameSize || n == len(w.targets) {
					return 0
				}
				w.targets[n] = targetName{size: uint16(name)} //nolint:gosec // at most maxNameSize
			}
			size += srvSize + int(w.targets[r.Target].size)
		}
		w.length += owner + size
		if least += len(toQuestion) + size; w.via == TCP {
			least = w.length + w.optSize()
		}
		if least > most {
			return 0
		}
		w.records[n] = r
		n++
	}
	if total := w.length + w.optSize(); !w.compresses(total) && total > len(w.out) {
		return 0
	}
	return n
}

// srv writes SRV record i. It returns false for a target with unusual characters.
func (w *writer) srv(i int) bool {
	r := &w.records[i]
	to := &w.targets[r.Target]
	w.record(w.owner, dns.TypeSRV, srvSize+int(to.size))
	b := w.out[w.at : w.at+srvSize]
	be.PutUint16(b, 0)
	be.PutUint16(b[2:], r.Weight)
	be.PutUint16(b[4:], r.Port)
	w.at += srvSize
	if int(r.Target) != i {
		w.at += copy(w.out[w.at:], w.out[to.at:to.at+to.size])
		return true
	}
	to.at = uint16(w.at) //nolint:gosec // below len(out)
	if r.Host == index.ServiceItself {
		to.owner = uint16(headerSize + len(w.query.name) - len(w.itself)) //nolint:gosec // below len(out)
		w.at += copy(w.out[w.at:], w.itself)
		return true
	}
	if w.compressed {
		to.owner = w.seen(i)
	}
	return w.host(w.lookup.Set.TargetHosts()[r.Host].Key)
}

// seen returns the offset for a compression pointer to the target of record i, which is about to be written: where dns.Msg.Pack first saw
// the name. That may be the end of another target's name, as with the hosts a.b and b.
func (w *writer) seen(i int) uint16 {
	hosts := w.lookup.Set.TargetHosts()
	key := hosts[w.records[i].Host].Key
	for j := range w.records[:i] {
		before := &w.records[j]
		if before.Host == index.ServiceItself || int(before.Target) != j {
			continue
		}
		if longer := hosts[before.Host].Key; len(longer) > len(key) && strings.HasSuffix(longer, key) && longer[len(longer)-len(key)-1] == '.' {
			return w.targets[j].at + uint16(len(longer)-len(key)) //nolint:gosec // less than a name
		}
	}
	return w.targets[i].at
}

// host writes the name of a host of a service, in lower case. It returns false for a name with unusual characters.
func (w *writer) host(key string) bool {
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
	for _, c := range w.itself {
		if 'A' <= c && c <= 'Z' { // the length of a label is never in this range
			c += 'a' - 'A'
		}
		w.out[w.at] = c
		w.at++
	}
	return true
}
