package clusterset_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// hostileTexts are values that a malicious or careless writer may put into a field.
var hostileTexts = []string{
	"", " ", ".", "..", "-", "a.", ".a", "a..b", "-a", "a-", "a_b", "A", "WEB", "*", "@", `a\.b`, `\000`, `\`, `a\`, "a b", "a\tb", "a\nb", "a\x00b",
	"\x7f", "\x1b[2J", "a;b", `a"b`, "$ORIGIN .", "héé", "例え", "xn--r8jz45g", "K", "ﬀ", "a\u202eb", "a\u200db", "\ufeffa",
	"_http._tcp", "_http", "_tcp", "_tcp.web", "svc", "dns", "ns", "dns-version", "c1", "a.c1", "h0.c1", "c1.honest.ns", "global", "clusterset.local",
	"10.0.0.1", "10-0-0-1", "::1", "127.0.0.1", "0", strings.Repeat("a", 63), strings.Repeat("a", 64), strings.Repeat("a", 255),
	strings.Repeat("a.", 130), strings.Repeat("é", 40), strings.Repeat("x", 100_000),
}

// hostileObjects returns objects of each kind, with each text in each field that could get into a record.
func hostileObjects() []any {
	type m = map[string]any
	type list = []any
	var all []any
	add := func(apiVersion, kind string, meta, rest m) {
		o := m{"apiVersion": apiVersion, "kind": kind, "metadata": meta}
		for k, v := range rest {
			o[k] = v
		}
		all = append(all, o)
	}
	const mcsVersion, fabVersion = "multicluster.x-k8s.io/v1beta1", "dns.fabedge.io/v1alpha1"
	for i, text := range hostileTexts {
		id := func(field string) string { return fmt.Sprintf("%s%d", field, i) }
		vipSpec := m{"type": "ClusterSetIP", "ips": list{"10.66.0.1"}, "ports": list{m{"name": "http", "port": 80}}}
		add(mcsVersion, "ServiceImport", m{"name": text, "namespace": "ns"}, m{"spec": vipSpec})
		add(mcsVersion, "ServiceImport", m{"name": id("n"), "namespace": text}, m{"spec": vipSpec})
		add(mcsVersion, "ServiceImport", m{"name": id("p"), "namespace": "ns"}, m{"spec": m{"type": "ClusterSetIP", "ips": list{"10.66.0.2", text}, "ports": list{m{"name": text, "port": 80}}}})
		add(mcsVersion, "ServiceImport", m{"name": id("h"), "namespace": "ns"}, m{"spec": m{"type": "Headless", "ports": list{}}})
		slice := func(name string, labels, endpoint, port m) {
			add("discovery.k8s.io/v1", "EndpointSlice", m{"name": name, "namespace": "ns", "labels": labels}, m{
				"addressType": "IPv4", "endpoints": list{endpoint}, "ports": list{port},
			})
		}
		labels := func(service, cluster string) m {
			return m{"multicluster.kubernetes.io/service-name": service, "multicluster.kubernetes.io/source-cluster": cluster}
		}
		http := m{"name": "http", "port": 8080}
		slice(id("s1-"), labels(id("h"), "c1"), m{"addresses": list{"10.66.1.1"}, "hostname": text, "zone": text}, m{"name": text, "port": 8080})
		slice(id("s2-"), labels(id("h"), text), m{"addresses": list{"10.66.1.2"}, "hostname": "h1"}, http)
		slice(id("s3-"), labels(text, "c1"), m{"addresses": list{"10.66.1.3"}, "hostname": "h0"}, http)
		slice(text, labels(id("h"), "c2"), m{"addresses": list{text, "10.66.1.4"}}, http)
		global := func(meta, endpoint, port m) {
			add(fabVersion, "GlobalService", meta, m{"spec": m{"type": "Headless", "ports": list{port}, "endpoints": list{endpoint}}})
		}
		good := func() m { return m{"addresses": list{"10.66.2.1"}, "cluster": "c1", "hostname": "h0"} }
		global(m{"name": text, "namespace": "ns"}, good(), http)
		global(m{"name": id("gn"), "namespace": text}, good(), http)
		global(m{"name": id("gc"), "namespace": "ns"}, m{"addresses": list{"10.66.2.2"}, "cluster": text, "hostname": "h0"}, http)
		global(m{"name": id("gh"), "namespace": "ns"}, m{"addresses": list{"10.66.2.3", text}, "cluster": "c1", "hostname": text, "zone": text, "region": text}, m{"name": text, "port": 80})
		add("clusterset.dev/v1alpha1", "MemberCluster", m{"name": text}, m{"spec": m{"zone": text, "region": text}})
	}
	return all
}

const honestObjects = `
apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceImport
metadata: {name: honest, namespace: other}
spec: {type: Headless, ports: [{name: http, port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: honest-1, namespace: other, labels: {multicluster.kubernetes.io/service-name: honest, multicluster.kubernetes.io/source-cluster: beijing}}
addressType: IPv4
ports: [{name: http, port: 8080}]
endpoints: [{addresses: [10.0.0.1], hostname: h0}]
`

var (
	label = `[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?`
	// recordName matches the part of a record's name before the zone, or before the zone's parent if its first label is svc. It allows only
	// names that resolvers, shells and certificates accept as a host name or, with underscores, as a port.
	recordName = regexp.MustCompile(`^((_` + label + `\._(tcp|udp|sctp)\.)?|(` + label + `\.){0,3})` + label + `\.` + label + `\.svc\.$|^(ns\.dns|dns-version)\.$|^((ns|dns-version)\.)?svc\.$|^$`)
)

// Whatever objects contain, each record of a zone has a valid name for its type, each target is a name in the same zone that has addresses,
// and no object changes a record of another, honest service. Rule A60 of docs/spec/answers.md.
func TestHostileObjectsMakeNoBadRecord(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "objects", "honest.yaml"), []byte(honestObjects))
	const corefile = `clusterset.local:0 {
    bind 127.0.0.1
    transfer {
        to *
    }
    clusterset clusterset.local svc.global {
        manifests %s/objects
    }
}
`
	s := startLive(t, fmt.Sprintf(strings.Replace(corefile, "clusterset.local:0", ".:0", 1), dir))
	s.expect(t, map[string]string{"A honest.other.svc.clusterset.local": "10.0.0.1"})
	honest := map[string][]string{}
	for _, zone := range []string{"clusterset.local.", "svc.global."} {
		honest[zone] = honestRecords(transferred(t, s.tcp, zone))
	}
	for i, o := range hostileObjects() {
		data, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		data = bytes.ReplaceAll(data, []byte("\x7f"), []byte(`\u007f`)) // the YAML reader would reject the file otherwise
		writeFile(t, filepath.Join(dir, "objects", fmt.Sprintf("hostile-%d.json", i)), data)
	}
	// The server adds the objects of one pass over the files in any order. Once the first of these two is served, the hostile objects are
	// served too or will be before the pass ends. The second belongs to a later pass, so it proves that they are all served.
	for _, last := range []string{"last", "very-last"} {
		writeFile(t, filepath.Join(dir, "objects", "z-"+last+".yaml"), importYAML("last", last, "ClusterSetIP", "10.66.3.1"))
		s.expect(t, map[string]string{"A " + last + ".last.svc.clusterset.local": "10.66.3.1"})
	}
	for zone, want := range honest {
		records := transferred(t, s.tcp, zone)
		if len(records) < 200 {
			t.Errorf("%s has only %d records: the hostile objects aren't there", zone, len(records))
		}
		checkZoneRecords(t, zone, records)
		if got := honestRecords(records); !slices.Equal(got, want) {
			t.Errorf("the honest service's records are %q, and were %q", got, want)
		}
		for _, rr := range records {
			checkAsked(t, s.udp, rr)
		}
	}
}

func checkZoneRecords(t *testing.T, zone string, records []dns.RR) {
	t.Helper()
	hasAddress := map[string]bool{}
	for _, rr := range records {
		if h := rr.Header(); h.Rrtype == dns.TypeA || h.Rrtype == dns.TypeAAAA {
			hasAddress[h.Name] = true
		}
	}
	for _, rr := range records {
		name := rr.Header().Name
		front, ok := strings.CutSuffix(name, strings.TrimPrefix(zone, "svc."))
		if !ok || !recordName.MatchString(front) || len(name) > 254 {
			t.Errorf("a record at %q", name)
		}
		switch rr := rr.(type) {
		case *dns.A:
			if !rr.A.IsPrivate() && name != "ns.dns."+zone && name != "ns."+zone { // these two names have this server's own address
				t.Errorf("%s", rr)
			}
		case *dns.SRV:
			if !hasAddress[rr.Target] || rr.Port == 0 || !strings.HasSuffix(rr.Target, "."+zone) || strings.HasPrefix(rr.Target, "_") {
				t.Errorf("%s leads nowhere", rr)
			}
		}
	}
}

// checkAsked queries a transferred record's name and expects the record in the answer.
func checkAsked(t *testing.T, udp string, rr dns.RR) {
	t.Helper()
	q := new(dns.Msg).SetQuestion(rr.Header().Name, rr.Header().Rrtype)
	q.SetEdns0(4096, false)
	m, err := dns.Exchange(q, udp)
	if err != nil {
		t.Errorf("dig %s: %v", rr.Header().Name, err)
		return
	}
	if !slices.ContainsFunc(m.Answer, func(got dns.RR) bool { return dns.IsDuplicate(got, rr) }) {
		t.Errorf("dig %s %s: no %s among\n%v", rr.Header().Name, dns.TypeToString[rr.Header().Rrtype], rr, m.Answer)
	}
}

func honestRecords(records []dns.RR) []string {
	var own []string
	for _, rr := range records {
		if strings.Contains(rr.Header().Name, "honest.other.") {
			own = append(own, rr.String())
		}
	}
	slices.Sort(own)
	return own
}

// transferred returns all records of a zone except the SOA.
func transferred(t *testing.T, tcp, zone string) []dns.RR {
	t.Helper()
	transfer := &dns.Transfer{ReadTimeout: time.Minute}
	ch, err := transfer.In(new(dns.Msg).SetAxfr(zone), tcp)
	if err != nil {
		t.Fatal(err)
	}
	var all []dns.RR
	for envelope := range ch {
		if envelope.Error != nil {
			t.Fatal(envelope.Error)
		}
		for _, rr := range envelope.RR {
			if rr.Header().Rrtype != dns.TypeSOA {
				all = append(all, rr)
			}
		}
	}
	return all
}
