package clusterset

import (
	"strings"
	"testing"

	"github.com/miekg/dns"
)

// All names that differ from one that exists by up to two labels in front.
func TestNamesAndTheirNeighbours(t *testing.T) {
	c := newFuzzPlugin("clusterset.local.", "global.", "in.clusterset.local.")
	for _, base := range fuzzBases() {
		for _, zone := range []string{"clusterset.local.", "global.", "in.clusterset.local.", "xglobal.", "local."} {
			name := strings.TrimPrefix(base+"."+zone, ".")
			checkName(t, c, name)
			for _, label := range fuzzLabels {
				checkName(t, c, label+"."+name)
				for _, another := range fuzzLabels {
					checkName(t, c, another+"."+label+"."+name)
				}
			}
		}
	}
}

// FuzzName looks names up and compares what they stand for with the list above.
func FuzzName(f *testing.F) {
	for _, d := range []dialect{mcs, global} {
		for _, name := range fuzzBases() {
			f.Add(name+"."+map[dialect]string{mcs: "clusterset.local.", global: "global."}[d], []byte{}, "x")
			f.Add(strings.ToUpper(name)+".in.clusterset.local.", []byte{16}, "_http")
		}
	}
	for _, name := range []string{
		".", "..", "", "xglobal.", "vip.ns.svc.xglobal.", `svc\.ns.svc.global.`, `hl\.ns.svc.global.`, `_http\._tcp.vip.ns.svc.global.`, `x\.global.`, `x\\.global.`,
		`\103\104.global.`, strings.Repeat("a.", 120) + "global.", strings.Repeat("b", 63) + ".svc.global.", "a..global.", ".global.",
	} {
		f.Add(name, []byte{0, 1}, `a\.b`)
	}
	plugins := []*ClusterSet{newFuzzPlugin("clusterset.local.", "global.", "in.clusterset.local."), newFuzzPlugin(".")}
	f.Fuzz(func(t *testing.T, name string, picks []byte, child string) {
		for _, p := range picks {
			name = fuzzLabels[int(p)%len(fuzzLabels)] + "." + name
		}
		for _, c := range plugins {
			if z := c.zones.match(lower(name)); z != nil { // whatever stands there
				z.lookup(&lookup{}, c.index.Snapshot(), lower(name))
			}
			canonical, ok := asReceived(name)
			if !ok {
				continue
			}
			k, z := checkName(t, c, canonical)
			if below, ok := asReceived(child + "." + canonical); ok && k == nameError {
				if childKind, childZone := checkName(t, c, below); childZone == z && childKind != nameError {
					t.Errorf("%s doesn't exist but %s below it does (RFC 8020)", canonical, below)
				}
			}
		}
	})
}

// asReceived returns a name as a server reads it from a packet, or false for what no packet can hold.
func asReceived(name string) (string, bool) {
	buf := make([]byte, 300)
	n, err := dns.PackDomainName(dns.Fqdn(name), buf, 0, nil, false)
	if err != nil {
		return "", false
	}
	name, _, err = dns.UnpackDomainName(buf[:n], 0)
	return name, err == nil
}

func checkName(t *testing.T, c *ClusterSet, qname string) (kind, *zone) {
	t.Helper()
	name := lower(qname)
	z := c.zones.match(name)
	var closest *zone
	for _, candidate := range c.zones {
		if dns.IsSubDomain(candidate.name, name) && (closest == nil || len(candidate.name) > len(closest.name)) {
			closest = candidate
		}
	}
	if z != closest {
		t.Fatalf("%s is in zone %v, want %v", name, z, closest)
	}
	if z == nil {
		return nameError, nil
	}
	labels := dns.SplitDomainName(name)
	below := strings.Join(labels[:len(labels)-dns.CountLabel(z.name)], ".")
	var l lookup
	z.lookup(&l, c.index.Snapshot(), name)
	if want := kindOf(z.dialect, below); l.kind != want {
		t.Errorf("%s (%s): kind %d, want %d", name, z.dialect, l.kind, want)
	}
	switch l.kind {
	case service, port, host:
		want := string(l.key) + ".svc." + z.suffix()
		if l.labels != "" {
			want = l.labels + "." + want
		}
		if want != name || lower(l.serviceName(qname)) != string(l.key)+".svc."+z.suffix() {
			t.Errorf("%s is taken for %s, a name of %s", name, want, l.serviceName(qname))
		}
		if l.kind == host && len(l.addrs) == 0 {
			t.Errorf("%s has no address", name)
		}
	}
	return l.kind, z
}
