package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/miekg/dns"

	"github.com/clusterset/clusterset/test/freeport"
	"github.com/clusterset/clusterset/test/kube"
)

const (
	hasAddress = "\n    erratic {\n        drop 0\n    }"
	saysClient = "\n    template IN ANY {\n        answer \"{{ .Name }} 60 IN TXT \\\"{{ .Remote }}\\\"\"\n    }"
)

// addressPlugins are server blocks with the stock plugins that look at a query's addresses, by plugin. Each has the zone NAME.test.
var addressPlugins = map[string]string{
	"acl":      "acl {\n        block net 127.0.0.2/32\n    }" + hasAddress,
	"cache":    "cache 30" + hasAddress,
	"dns64":    "dns64\n    template IN AAAA {\n        rcode NOERROR\n    }\n    template IN A {\n        answer \"{{ .Name }} 60 IN A 192.0.2.1\"\n    }",
	"dnstap":   "dnstap tcp://127.0.0.1:TAP full" + hasAddress,
	"file":     "secondary {\n        transfer from 127.0.0.2:1\n    }\n    log . \"client {remote}\"",
	"forward":  "dnstap tcp://127.0.0.1:TAP full\n    forward . 127.0.0.1:UPSTREAM",
	"geoip":    "geoip MODULE/plugin/geoip/testdata/GeoLite2-City.mmdb\n    metadata" + saysClient,
	"local":    "local" + hasAddress,
	"log":      "log . \"client {remote} of {name}\"" + hasAddress,
	"loop":     "loop" + hasAddress,
	"metrics":  "prometheus 127.0.0.1:METRICS" + hasAddress,
	"rewrite":  "rewrite edns0 subnet set 32 128\n    template IN ANY {\n        answer \"{{ .Name }} 60 IN TXT \\\"{{ .Message.Extra }}\\\"\"\n    }",
	"template": "whoami" + saysClient,
	"trace":    "trace zipkin 127.0.0.1:1" + hasAddress,
	"transfer": "transfer {\n        to 127.0.0.2\n    }\n    file OBJECTS/zone",
	"whoami":   "whoami",
}

// notHere are plugins that look at addresses, too, with the reason why no block has them.
var notHere = map[string]string{
	"kubernetes": "needs an API server; it uses request.IP, as acl does",
	"proxyproto": "turns the express path off",
}

// TestOtherBlocksSeeTheirClients sends the same queries to two servers at all addresses, one with an express path. The plugins of other
// blocks at the address see the same clients: replies, logs and what dnstap sends are the same.
func TestOtherBlocksSeeTheirClients(t *testing.T) {
	module, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/coredns/coredns").Output()
	if err != nil {
		t.Fatal(err)
	}
	expectAllAddressPlugins(t, filepath.Join(strings.TrimSpace(string(module)), "plugin"))
	var seen [2]string
	for i, option := range []string{"express auto", "express off"} {
		seen[i] = startOthers(t, strings.TrimSpace(string(module)), option)
	}
	if seen[0] != seen[1] {
		t.Errorf("with the express path:\n%s\nwithout:\n%s", seen[0], seen[1])
	}
	for _, want := range []string{"acl.test. A from 127.0.0.2: REFUSED", "acl.test. A from 127.0.0.1: NOERROR", "tapped client 127.0.0.1", "tapped client 127.0.0.2", "client 127.0.0.2 of log.test."} {
		if !strings.Contains(seen[1], want) {
			t.Errorf("no %q in\n%s", want, seen[1])
		}
	}
}

var looksAtAddresses = regexp.MustCompile(`RemoteAddr\(\)|\.(IP|Family)\(\)`)

// expectAllAddressPlugins looks for plugins that the tables lack in CoreDNS's source.
func expectAllAddressPlugins(t *testing.T, dir string) {
	t.Helper()
	found := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		name, _, nested := strings.Cut(rel, string(filepath.Separator))
		if !nested || name == "pkg" || name == "test" { // libraries
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil || !looksAtAddresses.Match(text) {
			return err
		}
		found++
		if addressPlugins[name] == "" && notHere[name] == "" {
			t.Errorf("the plugin %s looks at addresses (%s), but no block has it", name, rel)
		}
		return nil
	})
	if err != nil || found < 10 {
		t.Fatalf("%d files, %v", found, err)
	}
}

// startOthers runs a server, asks it, and returns what it said everywhere.
func startOthers(t *testing.T, module, option string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"objects.yaml": expressObjects,
		"zone":         "transfer.test. 60 IN SOA ns.transfer.test. a.transfer.test. 1 60 60 60 60\ntransfer.test. 60 IN NS ns.transfer.test.\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tap := startTap(t)
	port, metrics := freeport.For(t), freeport.For(t)
	corefile := "clusterset.local:PORT {\n    clusterset {\n        manifests OBJECTS\n        startup_timeout 30s\n        " + option + "\n    }\n}\n.:UPSTREAM {" + hasAddress + "\n}\n"
	for _, name := range slices.Sorted(maps.Keys(addressPlugins)) {
		corefile += name + ".test:PORT {\n    " + addressPlugins[name] + "\n}\n"
	}
	s := startCoreDNS(t, strings.NewReplacer("PORT", port, "UPSTREAM", freeport.For(t), "METRICS", metrics, "OBJECTS", dir, "TAP", tap.port, "MODULE", module).Replace(corefile))
	expectAddress(t, port, "web.test.svc.clusterset.local.", "10.42.0.1")
	if option == "express auto" {
		expectLog(t, s.log, "express: on at dns://:"+port)
	}
	var said strings.Builder
	for _, name := range slices.Sorted(maps.Keys(addressPlugins)) {
		for _, from := range []string{"127.0.0.1", "127.0.0.2"} {
			for _, qtype := range []uint16{dns.TypeA, dns.TypeAAAA, dns.TypeIXFR, dns.TypeNone} {
				q := new(dns.Msg).SetQuestion(name+".test.", qtype)
				if qtype == dns.TypeNone { // file drops it unless it comes from the primary server
					if name != "file" || from != "127.0.0.2" {
						continue
					}
					q.SetNotify(name + ".test.")
				}
				q.Id = 1
				fmt.Fprintf(&said, "%s %s from %s: %s\n", q.Question[0].Name, dns.TypeToString[q.Question[0].Qtype], from, askFrom(t, from, port, q))
			}
		}
	}
	kube.Eventually(t, func() error { return tap.expect("127.0.0.1", "127.0.0.2") })
	for _, client := range []string{"127.0.0.1", "127.0.0.2"} {
		expectLog(t, s.log, "client "+client+" of log.test.")
		fmt.Fprintf(&said, "tapped client %s\nclient %s of log.test.\n", client, client)
	}
	family := `coredns_dns_requests_total{family="1",proto="udp",server="dns://:` + port + `",type="A",view="",zone="metrics.test."} 2`
	kube.Eventually(t, func() error {
		if text := metricsText(t, metrics); !strings.Contains(text, family) {
			return fmt.Errorf("no %s", family)
		}
		return nil
	})
	return said.String()
}

// sourcePort matches the source port of a query in whoami's reply.
var sourcePort = regexp.MustCompile(`SRV\t0 0 \d+`)

func askFrom(t *testing.T, from, port string, q *dns.Msg) string {
	t.Helper()
	c := &dns.Client{Timeout: soon, Dialer: &net.Dialer{LocalAddr: &net.UDPAddr{IP: net.ParseIP(from)}}}
	m, _, err := c.Exchange(q, "127.0.0.1:"+port)
	if err != nil {
		t.Fatalf("%s from %s: %v", q.Question[0].Name, from, err)
	}
	text := dns.RcodeToString[m.Rcode]
	for _, rr := range slices.Concat(m.Answer, m.Ns, m.Extra) {
		text += " " + sourcePort.ReplaceAllString(rr.String(), "SRV\t0 0 PORT")
	}
	return cachedTTL.ReplaceAllString(text, "${1}by the clock$2")
}

// tap receives what the plugin dnstap sends.
type tap struct {
	port string
	mu   sync.Mutex
	got  []byte
}

// startTap accepts connections in the framestream protocol, which begins with control frames: the sender's READY and our ACCEPT.
func startTap(t *testing.T) *tap {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	_, port, _ := net.SplitHostPort(l.Addr().String())
	r := &tap{port: port}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go r.receive(conn)
		}
	}()
	return r
}

func (r *tap) receive(conn net.Conn) {
	defer conn.Close()
	header := make([]byte, 8) // an escape and the length
	if _, err := io.ReadFull(conn, header); err != nil {
		return
	}
	ready := make([]byte, binary.BigEndian.Uint32(header[4:]))
	if _, err := io.ReadFull(conn, ready); err != nil {
		return
	}
	binary.BigEndian.PutUint32(ready, 1) // ACCEPT, with the content type of READY
	if _, err := conn.Write(slices.Concat(header, ready)); err != nil {
		return
	}
	for b := make([]byte, 4096); ; {
		n, err := conn.Read(b)
		r.mu.Lock()
		r.got = append(r.got, b[:n]...)
		r.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// expect looks for query addresses: field 4 of a dnstap message, with four bytes.
func (r *tap) expect(clients ...string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, client := range clients {
		if !bytes.Contains(r.got, append([]byte{4<<3 | 2, 4}, net.ParseIP(client).To4()...)) {
			return fmt.Errorf("dnstap sent no query of %s in %d bytes", client, len(r.got))
		}
	}
	return nil
}
