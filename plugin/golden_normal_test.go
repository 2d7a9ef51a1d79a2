package clusterset_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// normalForm formats a response as the corpus does: status, EDNS, then the sections that are not empty, with sorted
// records.
func normalForm(q *goldenQuery, r *response) string {
	m := r.messages[0]
	var b strings.Builder
	b.WriteString(dns.RcodeToString[m.Rcode])
	for _, f := range []struct {
		set  bool
		name string
	}{
		{m.Authoritative, "aa"},
		{m.Truncated, "tc"},
		{m.RecursionDesired, "rd"},
		{m.RecursionAvailable, "ra"},
		{m.AuthenticatedData, "ad"},
		{m.CheckingDisabled, "cd"},
	} {
		if f.set {
			b.WriteString(" " + f.name)
		}
	}
	b.WriteByte('\n')
	if q.size {
		fmt.Fprintf(&b, ";size %d\n", r.size)
	}
	if opt := m.IsEdns0(); opt != nil {
		b.WriteString(normalEDNS(opt))
	}
	extra := slices.DeleteFunc(slices.Clone(m.Extra), func(rr dns.RR) bool { return rr.Header().Rrtype == dns.TypeOPT })
	for _, section := range []struct {
		name    string
		records []dns.RR
	}{{"answer", r.answer()}, {"authority", m.Ns}, {"additional", extra}} {
		switch {
		case len(section.records) == 0:
		case q.count:
			fmt.Fprintf(&b, ";%s %d\n", section.name, len(section.records))
		default:
			fmt.Fprintf(&b, ";%s\n%s", section.name, normalRecords(section.records))
		}
	}
	return b.String()
}

func normalEDNS(opt *dns.OPT) string {
	var b strings.Builder
	fmt.Fprintf(&b, ";edns %d", opt.UDPSize())
	if opt.Do() {
		b.WriteString(" do")
	}
	for _, option := range opt.Option {
		if ede, ok := option.(*dns.EDNS0_EDE); ok {
			fmt.Fprintf(&b, " ede=%d %q", ede.InfoCode, ede.ExtraText)
		} else {
			fmt.Fprintf(&b, " option=%d", option.Option())
		}
	}
	return b.String() + "\n"
}

// normalRecords sorts records. In a zone transfer, the first and last SOA stay in place.
func normalRecords(records []dns.RR) string {
	lines := make([]string, len(records))
	for i, rr := range records {
		if soa, ok := rr.(*dns.SOA); ok {
			rr = dns.Copy(soa)
			rr.(*dns.SOA).Serial = 0
			lines[i] = strings.Replace(rr.String(), " 0 ", " SERIAL ", 1)
		} else {
			lines[i] = rr.String()
		}
		lines[i] = strings.Join(strings.Fields(lines[i]), " ")
	}
	inner := lines
	if n := len(lines); n > 1 && records[0].Header().Rrtype == dns.TypeSOA && records[n-1].Header().Rrtype == dns.TypeSOA {
		inner = lines[1 : n-1]
	}
	slices.Sort(inner)
	return strings.Join(lines, "\n") + "\n"
}
