package clusterset_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/miekg/dns"
)

// chainAsker sends one query after another and checks the replies.
type chainAsker struct {
	server *liveServer
	cached bool // whether the chain has the cache plugin
	key    *dns.DNSKEY
	random *rand.Rand
}

var chainTypes = []uint16{dns.TypeA, dns.TypeA, dns.TypeAAAA, dns.TypeSRV, dns.TypeMX, dns.TypeANY}

// ask sends a random query of chainNames and chainTypes, with random EDNS options and transport.
func (a *chainAsker) ask() error {
	names := slices.Sorted(maps.Keys(chainNames))
	if a.cached {
		names = slices.DeleteFunc(names, func(name string) bool { return strings.HasPrefix(name, "long.") })
	}
	name := names[a.random.IntN(len(names))]
	m := new(dns.Msg).SetQuestion(a.mixed(name), chainTypes[a.random.IntN(len(chainTypes))])
	do := false
	if a.random.IntN(2) == 0 {
		do = a.random.IntN(2) == 0
		m.SetEdns0(uint16(512+a.random.IntN(4000)), do) //nolint:gosec // fits
	}
	client, addr := &dns.Client{Timeout: exchangeTimeout}, a.server.udp
	if a.random.IntN(4) == 0 {
		client.Net, addr = "tcp", a.server.tcp
	}
	r, _, err := client.Exchange(m, addr)
	if err == nil {
		err = a.check(name, m, r, do)
	}
	if err != nil {
		return fmt.Errorf("%w\n;; %v over %q got\n%v", err, m.Question[0].String(), client.Net, r)
	}
	return nil
}

// mixed returns the name unchanged or, half of the time, with random capitals.
func (a *chainAsker) mixed(name string) string {
	if a.random.IntN(2) == 0 {
		return name
	}
	return strings.Map(func(r rune) rune {
		if a.random.IntN(2) == 0 {
			return unicode.ToUpper(r)
		}
		return r
	}, name)
}

func (a *chainAsker) check(name string, m, r *dns.Msg, do bool) error {
	q := m.Question[0]
	switch {
	case len(r.Question) != 1 || r.Question[0] != q:
		return fmt.Errorf("the question comes back as %v", r.Question)
	case r.Rcode != dns.RcodeSuccess && r.Rcode != dns.RcodeNameError:
		return fmt.Errorf("got %s", dns.RcodeToString[r.Rcode])
	case (r.IsEdns0() != nil) != (m.IsEdns0() != nil):
		return fmt.Errorf("EDNS in the query: %v, in the reply: %v", m.IsEdns0() != nil, r.IsEdns0() != nil)
	}
	if err := a.checkRecords(name, r, do); err != nil {
		return err
	}
	got := chainAnswer(q.Qtype, r)
	want := chainNames[name][q.Qtype]
	switch {
	case want == nil && q.Qtype == dns.TypeANY:
		want = []string{"HINFO"}
	case want == nil && slices.Contains(chainNames[name][dns.TypeA], "NXDOMAIN"):
		want = []string{"NXDOMAIN", "NODATA"}
	case want == nil:
		want = []string{"NODATA"}
	}
	// The dnssec plugin proves that a name doesn't exist with a NODATA reply (black lies).
	if slices.Contains(want, "NXDOMAIN") && got == "NODATA" && do {
		return nil
	}
	if r.Truncated && slices.ContainsFunc(want, func(w string) bool { return holdsAll(w, got) }) {
		return nil // the records that fit belong to a correct answer
	}
	if !slices.Contains(want, got) {
		return fmt.Errorf("got %s, want one of %q", got, want)
	}
	return nil
}

// checkRecords checks owners, TTLs and signatures.
func (a *chainAsker) checkRecords(name string, r *dns.Msg, do bool) error {
	for _, rr := range append(slices.Clone(r.Answer), r.Ns...) {
		h := rr.Header()
		_, isSig := rr.(*dns.RRSIG)
		switch {
		case isSig && !do:
			return fmt.Errorf("a signature that wasn't asked for: %v", rr)
		case isSig || h.Rrtype == dns.TypeNSEC: // the dnssec plugin sets their TTLs
			continue
		case strings.HasPrefix(name, "brief."): // the rewrite plugin sets the TTL of negative replies too
			if h.Ttl != rewrittenTTL {
				return fmt.Errorf("the TTL of %v is not the rewritten %d", rr, rewrittenTTL)
			}
		case h.Ttl == 0 || h.Ttl > chainTTL || h.Ttl < chainTTL && !a.cached:
			return fmt.Errorf("the TTL of %v is not %d, nor what a cache leaves of it", rr, chainTTL)
		}
	}
	for _, rr := range r.Answer {
		owner, asked := rr.Header().Name, r.Question[0].Name
		// The cache plugin and the dnssec plugin's cache of signatures keep the letter case of the first query; rewrite writes
		// lower case.
		exact := !a.cached && rr.Header().Rrtype != dns.TypeRRSIG && !strings.HasPrefix(name, "short.")
		if !strings.EqualFold(owner, asked) || exact && owner != asked {
			return fmt.Errorf("%v is about another name than %s", rr, asked)
		}
	}
	for _, rr := range r.Ns {
		owner := strings.ToLower(rr.Header().Name)
		if rr.Header().Rrtype == dns.TypeSOA && owner != "clusterset.local." && owner != "svc.global." {
			return fmt.Errorf("the SOA is that of %s", owner)
		}
	}
	if !do || !strings.HasSuffix(name, "clusterset.local.") || len(r.Answer) == 0 || r.Truncated {
		return nil
	}
	return a.checkSignature(r.Answer)
}

// checkSignature verifies the signature like a validating resolver. It detects a record that was changed or removed without the
// dnssec plugin's knowledge.
func (a *chainAsker) checkSignature(answer []dns.RR) error {
	var set []dns.RR
	var sig *dns.RRSIG
	for _, rr := range answer {
		if s, ok := rr.(*dns.RRSIG); ok {
			sig = s
			continue
		}
		set = append(set, rr)
	}
	if sig == nil {
		return fmt.Errorf("no signature in a signed zone: %v", answer)
	}
	if !sig.ValidityPeriod(time.Now()) {
		return fmt.Errorf("the signature is out of date: %v", sig)
	}
	if err := sig.Verify(a.key, set); err != nil {
		return fmt.Errorf("verify %v: %w", sig, err)
	}
	return nil
}

// chainAnswer formats the answer like those in chainNames.
func chainAnswer(qtype uint16, r *dns.Msg) string {
	if r.Rcode == dns.RcodeNameError {
		return "NXDOMAIN"
	}
	var data []string
	for _, rr := range r.Answer {
		switch rr := rr.(type) {
		case *dns.A:
			data = append(data, rr.A.String())
		case *dns.AAAA:
			data = append(data, rr.AAAA.String())
		case *dns.SRV:
			data = append(data, fmt.Sprintf("%d %s", rr.Port, strings.ToLower(rr.Target)))
		case *dns.RRSIG:
		default:
			data = append(data, dns.TypeToString[rr.Header().Rrtype])
			if rr.Header().Rrtype != qtype && qtype != dns.TypeANY {
				data = append(data, "unasked")
			}
		}
	}
	if len(data) == 0 {
		return "NODATA"
	}
	slices.Sort(data)
	return strings.Join(data, " ")
}

// holdsAll reports whether whole contains every word of part, which lists some of the records.
func holdsAll(whole, part string) bool {
	words := strings.Fields(whole)
	return part == "NODATA" || !slices.ContainsFunc(strings.Fields(part), func(w string) bool { return !slices.Contains(words, w) })
}

// checkTransfer transfers the signed zone's plain records. The transfer begins and ends with the SOA, and its records for a name
// equal the answer to a query.
func checkTransfer(s *liveServer) error {
	envelopes, err := new(dns.Transfer).In(new(dns.Msg).SetAxfr("clusterset.local."), s.tcp)
	if err != nil {
		return fmt.Errorf("transfer: %w", err)
	}
	addrs := map[string][]string{}
	n := 0
	for e := range envelopes {
		if e.Error != nil {
			return fmt.Errorf("transfer: %w", e.Error)
		}
		for _, rr := range e.RR {
			n++
			if a, ok := rr.(*dns.A); ok {
				addrs[a.Hdr.Name] = append(addrs[a.Hdr.Name], a.A.String())
			}
			if ttl := rr.Header().Ttl; ttl == 0 || ttl > chainTTL && !strings.HasPrefix(rr.Header().Name, "dns-version.") {
				return fmt.Errorf("transfer: the TTL of %v is not between 1 and %d", rr, chainTTL)
			}
		}
	}
	if n < 100 { // the many endpoints have records at the service's name and at their own
		return fmt.Errorf("transfer: only %d records", n)
	}
	for name, types := range chainNames {
		got := addrs[name]
		slices.Sort(got)
		if want := types[dns.TypeA]; len(got) > 0 && !slices.Contains(want, strings.Join(got, " ")) {
			return fmt.Errorf("transfer: %s has %q, want one of %q", name, got, want)
		}
	}
	return nil
}
