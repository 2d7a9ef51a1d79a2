package clusterset

import (
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/clusterset/clusterset/internal/index"
)

// Checks every existing name, and every name that differs from one by up to two labels in front.
func TestNamesAndTheirNeighbours(t *testing.T) {
	c := newFuzzPlugin("clusterset.local.", "global.", "in.clusterset.local.", "svc.in.clusterset.local.", "svc.example.", "svc.")
	for _, base := range fuzzBases() {
		for _, zone := range []string{"clusterset.local.", "global.", "in.clusterset.local.", "example.", "svc.example.", "svc.", "xglobal.", "local."} {
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

// FuzzName looks names up and compares the results with fuzzNames.
func FuzzName(f *testing.F) {
	for _, d := range []index.Dialect{index.MCS, index.Global} {
		for _, name := range fuzzBases() {
			f.Add(name+"."+map[index.Dialect]string{index.MCS: "clusterset.local.", index.Global: "global."}[d], []byte{}, "x")
			f.Add(strings.ToUpper(name)+".in.clusterset.local.", []byte{16}, "_http")
		}
	}
	for _, name := range []string{
		".", "..", "", "xglobal.", "vip.ns.svc.xglobal.", `svc\.ns.svc.global.`, `hl\.ns.svc.global.`, `_http\._tcp.vip.ns.svc.global.`, `x\.global.`, `x\\.global.`,
		`\103\104.global.`, strings.Repeat("a.", 120) + "global.", strings.Repeat("b", 63) + ".svc.global.", "a..global.", ".global.",
	} {
		f.Add(name, []byte{0, 1}, `a\.b`)
	}
	plugins := []*ClusterSet{
		newFuzzPlugin("clusterset.local.", "global.", "in.clusterset.local."), newFuzzPlugin("clusterset.local.", "svc.global."),
		newFuzzPlugin("global.", "svc.global.", "svc."), newFuzzPlugin("."),
	}
	f.Fuzz(func(t *testing.T, name string, picks []byte, child string) {
		for _, p := range picks {
			name = fuzzLabels[int(p)%len(fuzzLabels)] + "." + name
		}
		for _, c := range plugins {
			if z := c.zones.match(strings.ToLower(name)); z != nil { // any text may be looked up, even an invalid name
				c.lookup(&index.Lookup{}, z, c.index.Snapshot(), strings.ToLower(name))
			}
			canonical, ok := asReceived(name)
			if !ok {
				continue
			}
			k, z := checkName(t, c, canonical)
			if below, ok := asReceived(child + "." + canonical); ok && k == index.NameError {
				if childKind, childZone := checkName(t, c, below); childZone == z && childKind != index.NameError {
					t.Errorf("%s doesn't exist but %s below it does (RFC 8020)", canonical, below)
				}
			}
		}
	})
}

// asReceived returns a name as a server reads it from a packet, or false if no packet can hold it.
func asReceived(name string) (string, bool) {
	buf := make([]byte, 300)
	n, err := dns.PackDomainName(dns.Fqdn(name), buf, 0, nil, false)
	if err != nil {
		return "", false
	}
	name, _, err = dns.UnpackDomainName(buf[:n], 0)
	return name, err == nil
}

func checkName(t *testing.T, c *ClusterSet, qname string) (index.NameKind, *zone) {
	t.Helper()
	name := strings.ToLower(qname)
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
		return index.NameError, nil
	}
	labels := dns.SplitDomainName(name)
	below := strings.Join(labels[:len(labels)-dns.CountLabel(z.name)], ".")
	var l index.Lookup
	c.lookup(&l, z, c.index.Snapshot(), name)
	if want := kindOf(z, below); l.Kind != want {
		t.Errorf("%s (%s): kind %d, want %d", name, z.dialect, l.Kind, want)
	}
	if want := z.name == "global." && !dns.IsSubDomain("svc.global.", name) && l.Kind == index.NameError; z.passesOn(name) != want {
		t.Errorf("%s (zone %s): kind %d, passed on: %t", name, z.name, l.Kind, !want)
	}
	switch l.Kind {
	case index.ServiceName, index.PortName, index.HostName, index.ZoneName:
		want := string(l.Key) + ".svc." + suffix(z.origin)
		if l.Labels != "" {
			want = l.Labels + "." + want
		}
		if want != name || strings.ToLower(serviceName(&l, qname)) != string(l.Key)+".svc."+suffix(z.origin) {
			t.Errorf("%s is taken for %s, a name of %s", name, want, serviceName(&l, qname))
		}
		if l.Kind == index.HostName && len(l.Addrs) == 0 {
			t.Errorf("%s has no address", name)
		}
	}
	return l.Kind, z
}
