package random

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/clusterset/clusterset/test/fleet"
)

// Zone is a zone as one server must serve it, record by record. The answer for a name without records follows from the
// names around it, as in any zone. The rules are in docs/spec/answers.md; see also oracle.go.
type Zone struct {
	origin string
	global bool
	at     fleet.Location
	member *View
	Names  map[string]map[string][]string // name, type, data
}

// Zone returns the zone that a server must serve.
func (w *World) Zone(origin string, s Server) *Zone {
	z := &Zone{origin: origin, global: origin == "global", at: s.At, Names: map[string]map[string][]string{}}
	for _, c := range w.Clusters {
		if c.Name == s.Member.Spec.Name {
			z.member = c
		}
	}
	for _, key := range w.Keys() {
		if parts := w.visible(z.member, key); len(parts) > 0 && z.member.namespaces[key.Namespace] { // C30
			z.service(key, parts)
		}
	}
	return z
}

// Answer returns the expected answer to a question (A16, A17).
func (z *Zone) Answer(name, qtype string) string {
	if records, ok := z.Names[name]; ok {
		if len(records[qtype]) == 0 {
			return "NODATA"
		}
		return answerText(records[qtype], z.additional(records[qtype], qtype))
	}
	for other := range z.Names {
		if strings.HasSuffix(other, "."+name) {
			return "NODATA" // an empty non-terminal
		}
	}
	return "NXDOMAIN"
}

// additional returns the addresses of the targets of SRV records (A47).
func (z *Zone) additional(data []string, qtype string) []string {
	var all []string
	if qtype != "SRV" {
		return nil
	}
	for _, d := range data {
		fields := strings.Fields(d)
		target := fields[len(fields)-1]
		for _, family := range []string{"A", "AAAA"} {
			for _, a := range z.Names[strings.TrimSuffix(target, ".")][family] {
				all = append(all, target+" "+family+" "+a)
			}
		}
	}
	return all
}

// answerText formats an answer and its additional section. Order and duplicates make no difference.
func answerText(answer, additional []string) string {
	text := strings.Join(sortedSet(answer), ", ")
	if len(additional) > 0 {
		text += " with " + strings.Join(sortedSet(additional), ", ")
	}
	return text
}

func sortedSet(s []string) []string { return slices.Compact(slices.Sorted(slices.Values(s))) }

// exists makes a name exist, even without records.
func (z *Zone) exists(name string) {
	if z.Names[name] == nil {
		z.Names[name] = map[string][]string{}
	}
}

func (z *Zone) add(name, rrtype, data string) {
	z.exists(name)
	if !slices.Contains(z.Names[name][rrtype], data) {
		z.Names[name][rrtype] = append(z.Names[name][rrtype], data)
	}
}

func (z *Zone) addAddress(name, address string) {
	addr := netip.MustParseAddr(address)
	if addr.Is4() {
		z.add(name, "A", addr.String())
	} else {
		z.add(name, "AAAA", addr.String())
	}
}

// srvTarget is the target of an SRV record.
type srvTarget struct {
	port int32
	name string
}

// addSRV adds SRV records of equal weight (A41).
func (z *Zone) addSRV(name string, targets map[srvTarget]bool) {
	z.exists(name)
	for t := range targets {
		z.add(name, "SRV", fmt.Sprintf("0 %d %d %s.", max(1, 100/len(targets)), t.port, t.name))
	}
}
