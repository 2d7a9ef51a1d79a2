package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterset/clusterset/test/freeport"
)

// The certificate of the servers for TLS, in the bench's directory.
const (
	certFile = "cert.pem"
	keyFile  = "key.pem"
)

// connections are dnsperf's arguments for queries over TCP: few connections that stay open, as a cache on each node has.
var connections = []string{"-c", "16", "-m", "tcp"}

// streams measures servers with the usual Corefile over TCP, and over TLS. NSD answers the same names from a zone file. It is written in C and
// has no plugins.
func streams(ctx context.Context, b *bench) error {
	if err := writeCertificate(b.dir); err != nil {
		return err
	}
	if err := b.streamsOver(ctx, "tcp"); err != nil {
		return err
	}
	fmt.Println()
	return b.streamsOver(ctx, "tls")
}

func (b *bench) streamsOver(ctx context.Context, transport string) error {
	servers, err := b.startStreams(ctx, transport)
	defer func() {
		for _, s := range servers {
			s.stop()
		}
	}()
	if err != nil {
		return err
	}
	args := connections
	if transport == "tls" {
		args = []string{"-c", "16", "-m", "dot"}
	}
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(out, "%s, flooded\t", transport)
	for _, s := range servers {
		fmt.Fprintf(out, "%s µs/q\t", s.name)
	}
	fmt.Fprint(out, "ours / echo\toff / ours\tin-tree / ours\t")
	if transport == "tcp" {
		fmt.Fprint(out, "ours / nsd\tqps, ours / in-tree\t")
	}
	fmt.Fprintln(out)
	for _, q := range append(b.queries(), query{"headless 10 SRV", dns.TypeSRV, func(i int) string { return "_http._tcp." + b.objects.headlessName(i) }},
		query{"cluster.local A", dns.TypeA, b.objects.local}) {
		r, err := b.contest(ctx, q, servers, args...)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s\t", q.name)
		for _, s := range servers {
			fmt.Fprintf(out, "%.2f\t", r[s.name].micros)
		}
		ours := r["ours"]
		fmt.Fprintf(out, "%.2f\t%.2f\t%.2f\t", ours.micros/r["echo"].micros, r["ours-off"].micros/ours.micros, r["in-tree"].micros/ours.micros)
		if transport == "tcp" {
			fmt.Fprintf(out, "%.2f\t%.2f\t", ours.micros/r["nsd"].micros, ours.qps/r["in-tree"].qps)
		}
		fmt.Fprintln(out)
	}
	return out.Flush()
}

// startStreams starts the echo, and servers for one transport.
func (b *bench) startStreams(ctx context.Context, transport string) (servers []*server, err error) {
	front, zone, network := strings.ReplaceAll(productionBody, "    reload\n", ""), ".", "tcp"
	if transport == "tls" { // shed is for UDP
		front, zone, network = "    tls CERTS/"+certFile+" CERTS/"+keyFile+"\n"+strings.ReplaceAll(front, "    shed\n", ""), "tls://.", "tcp-tls"
	}
	echo, err := b.startEcho(ctx, transport)
	if err != nil {
		return nil, err
	}
	servers = append(servers, echo)
	ours := strings.Replace(oursBody, "clusterset {", "clusterset clusterset.local {", 1) + localBody
	for _, s := range []struct{ name, body string }{
		{"ours", front + ours},
		{"ours-off", front + strings.Replace(ours, "clusterset.local {", "clusterset.local {\n        express off", 1)},
		{"in-tree", front + inTreeBody},
	} {
		srv, err := b.start(ctx, s.name, zone, s.body)
		if err != nil {
			return servers, err
		}
		srv.net = network
		servers = append(servers, srv)
	}
	if transport == "tcp" {
		nsd, err := b.startNSD(ctx)
		if err != nil {
			return servers, err
		}
		if nsd != nil {
			servers = append(servers, nsd)
		}
	}
	for _, s := range servers {
		if err := s.await(ctx, b.objects.headlessName(0)); err != nil {
			return servers, err
		}
	}
	return servers, nil
}

// startNSD starts NSD with a zone file of the same names. It returns nil if there is no NSD.
func (b *bench) startNSD(ctx context.Context) (*server, error) {
	binary, err := exec.LookPath("nsd")
	if err != nil {
		binary = "/usr/sbin/nsd"
	}
	if _, err := os.Stat(binary); err != nil {
		fmt.Printf("NSD is left out: %v (Debian package nsd)\n\n", err)
		return nil, nil
	}
	port, err := freeport.Find()
	if err != nil {
		return nil, err
	}
	config := filepath.Join(b.dir, "nsd.conf")
	text := fmt.Sprintf(`server:
    ip-address: 127.0.0.1@%[1]s
    username: ""
    chroot: ""
    zonesdir: %[2]s
    pidfile: %[2]s/nsd.pid
    xfrdfile: %[2]s/nsd.xfrd
    zonelistfile: %[2]s/nsd.zones
    database: ""
    server-count: 1
    tcp-count: 200
    reuseport: no
    round-robin: yes
remote-control:
    control-enable: no
zone:
    name: clusterset.local
    zonefile: zone
`, port, b.dir)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(b.dir, "zone"), []byte(b.objects.zoneFile()), 0o600); err != nil {
		return nil, err
	}
	s := &server{name: "nsd", addr: "127.0.0.1:" + port, net: "tcp"}
	s.cmd = exec.CommandContext(ctx, "taskset", "-c", "0", binary, "-d", "-c", config) //nolint:gosec // as found
	s.cmd.Stderr = os.Stderr
	return s, s.cmd.Start()
}

// zoneFile returns the names of the objects as a zone file.
func (o objects) zoneFile() string {
	var text strings.Builder
	text.WriteString("$ORIGIN clusterset.local.\n$TTL 5\n@ SOA ns.dns hostmaster 1 60 15 86400 5\n@ NS ns.dns\nns.dns A 127.0.0.1\n")
	for i := range o.services {
		name := o.service(i)
		fmt.Fprintf(&text, "%[1]s A 10.100.%[2]d.%[3]d\n_http._tcp.%[1]s SRV 0 100 80 %[1]s\n", name, i/256%256, i%256)
	}
	for i := range o.headless {
		o.zoneHeadless(&text, o.headlessName(i), 10, i)
	}
	o.zoneHeadless(&text, "hl100.ns-0.svc.clusterset.local.", 100, 7777)
	return text.String()
}

func (objects) zoneHeadless(text *strings.Builder, name string, endpoints, seed int) {
	for j := range endpoints {
		host, addr := fmt.Sprintf("pod-%d.cluster-%d.%s", j, seed%5, name), fmt.Sprintf("10.%d.%d.%d", 200+seed/256%50, seed%256, j+1)
		fmt.Fprintf(text, "%[1]s A %[3]s\n%[2]s A %[3]s\n_http._tcp.%[1]s SRV 0 %[4]d 80 %[2]s\n", name, host, addr, max(1, 100/endpoints))
	}
}

func writeCertificate(dir string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(24 * time.Hour)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	for name, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: cert}, keyFile: {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			return err
		}
	}
	return nil
}
