package e2e

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// zoneFile is a zone as one server must serve it, record by record. The answer for a name without records follows from the
// names around it, as in any zone. For the rules see random_oracle_test.go and docs/spec/answers.md.
type zoneFile struct {
	origin string
	global bool
	at     location
	member *clusterView
	names  map[string]map[string][]string // name, type, data
}

// zone writes a zone's file for a server.
func (w *world) zone(origin string, s randomServer) *zoneFile {
	z := &zoneFile{origin: origin, global: origin == "global", at: s.at, names: map[string]map[string][]string{}}
	for _, c := range w.clusters {
		if c.name == s.member.name {
			z.member = c
		}
	}
	for _, key := range w.keys() {
		if parts := w.visible(z.member, key); len(parts) > 0 && z.member.namespaces[key.Namespace] { // C30
			z.service(key, parts)
		}
	}
	return z
}

// answer is the expected answer to a question (A16, A17).
func (z *zoneFile) answer(name, qtype string) string {
	if records, ok := z.names[name]; ok {
		if len(records[qtype]) == 0 {
			return "NODATA"
		}
		return answerText(records[qtype], z.additional(records[qtype], qtype))
	}
	for other := range z.names {
		if strings.HasSuffix(other, "."+name) {
			return "NODATA" // an empty non-terminal
		}
	}
	return "NXDOMAIN"
}

// additional are the addresses of the targets of SRV records (A47).
func (z *zoneFile) additional(data []string, qtype string) []string {
	var all []string
	if qtype != "SRV" {
		return nil
	}
	for _, d := range data {
		fields := strings.Fields(d)
		target := fields[len(fields)-1]
		for _, family := range []string{"A", "AAAA"} {
			for _, a := range z.names[strings.TrimSuffix(target, ".")][family] {
				all = append(all, target+" "+family+" "+a)
			}
		}
	}
	return all
}

// answerText formats an answer and its additional section; order and repetition don't count.
func answerText(answer, additional []string) string {
	text := strings.Join(sortedSet(answer), ", ")
	if len(additional) > 0 {
		text += " with " + strings.Join(sortedSet(additional), ", ")
	}
	return text
}

func sortedSet(s []string) []string { return slices.Compact(slices.Sorted(slices.Values(s))) }

// exists makes a name exist, even without records.
func (z *zoneFile) exists(name string) {
	if z.names[name] == nil {
		z.names[name] = map[string][]string{}
	}
}

func (z *zoneFile) add(name, rrtype, data string) {
	z.exists(name)
	if !slices.Contains(z.names[name][rrtype], data) {
		z.names[name][rrtype] = append(z.names[name][rrtype], data)
	}
}

func (z *zoneFile) addAddress(name, address string) {
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
func (z *zoneFile) addSRV(name string, targets map[srvTarget]bool) {
	z.exists(name)
	for t := range targets {
		z.add(name, "SRV", fmt.Sprintf("0 %d %d %s.", max(1, 100/len(targets)), t.port, t.name))
	}
}
