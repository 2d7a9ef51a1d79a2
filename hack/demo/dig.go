package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// answers returns the sorted data of a reply's records. If there are none, it returns one word that tells why, such as NXDOMAIN, NODATA or
// SERVFAIL.
func answers(r *dns.Msg) []string {
	switch {
	case r.Rcode != dns.RcodeSuccess:
		return []string{dns.RcodeToString[r.Rcode]}
	case len(r.Answer) == 0:
		return []string{"NODATA"}
	}
	data := make([]string, 0, len(r.Answer))
	for _, rr := range r.Answer {
		data = append(data, rdata(rr))
	}
	slices.Sort(data)
	return data
}

func rdata(rr dns.RR) string { return strings.TrimPrefix(rr.String(), rr.Header().String()) }

// digText prints a reply as dig does with the options that it returns: the answer or, if that is empty, the header.
func digText(r *dns.Msg) (options, text string) {
	if len(r.Answer) == 0 {
		return "+noall +comments", fmt.Sprintf(";; ->>HEADER<<- opcode: %s, status: %s, id: %d\n;; flags:%s; QUERY: %d, ANSWER: %d, AUTHORITY: %d, ADDITIONAL: %d\n",
			dns.OpcodeToString[r.Opcode], dns.RcodeToString[r.Rcode], r.Id, flags(r), len(r.Question), len(r.Answer), len(r.Ns), len(r.Extra))
	}
	var b strings.Builder
	for _, rr := range r.Answer {
		h := rr.Header()
		fmt.Fprintf(&b, "%s%d\t%s\t%s\t%s\n", column(h.Name, 24), h.Ttl, dns.ClassToString[h.Class], dns.TypeToString[h.Rrtype], rdata(rr))
	}
	return "+noall +answer", b.String()
}

// column pads a name with tabs, as dig does, or adds a space to one that is too long.
func column(name string, width int) string {
	if len(name) >= width {
		return name + " "
	}
	return name + strings.Repeat("\t", (width-len(name)+7)/8)
}

func flags(r *dns.Msg) string {
	var b strings.Builder
	for _, f := range []struct {
		set  bool
		name string
	}{{r.Response, " qr"}, {r.Authoritative, " aa"}, {r.Truncated, " tc"}, {r.RecursionDesired, " rd"}, {r.RecursionAvailable, " ra"}} {
		if f.set {
			b.WriteString(f.name)
		}
	}
	return b.String()
}
