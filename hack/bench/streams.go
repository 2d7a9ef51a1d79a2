package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/miekg/dns"

	"github.com/clusterset/clusterset/test/kube"
)

// connections are dnsperf's arguments for queries over TCP: few connections that stay open, as a cache on each node has.
var connections = []string{"-c", "16", "-m", "tcp"}

// streams measures servers with the usual Corefile over TCP, and over TLS.
func streams(ctx context.Context, b *bench) error {
	if _, err := kube.WriteCertificate(b.dir); err != nil {
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
	ours := append(b.queries(), query{"headless 10 SRV", dns.TypeSRV, func(i int) string { return "_http._tcp." + b.objects.headlessName(i) }})
	for i, q := range append(ours, b.cluster()...) {
		asked := servers
		if i >= len(ours) {
			asked = withoutNSD(servers)
		}
		r, err := b.contest(ctx, q, asked, args...)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s\t", q.name)
		for _, s := range servers {
			fmt.Fprintf(out, "%s\t", figure(r[s.name].micros))
		}
		ours := r["ours"]
		fmt.Fprintf(out, "%.2f\t%.2f\t%.2f\t", ours.micros/r["echo"].micros, r["ours-off"].micros/ours.micros, r["in-tree"].micros/ours.micros)
		if transport == "tcp" {
			fmt.Fprintf(out, "%s\t%.2f\t", figure(ours.micros/r["nsd"].micros), ours.qps/r["in-tree"].qps)
		}
		fmt.Fprintln(out)
	}
	if err := out.Flush(); err != nil {
		return err
	}
	return b.bystanders(ctx, [2]*server{servers[1], servers[2]}, args...)
}

// startStreams starts the echo, and servers for one transport.
func (b *bench) startStreams(ctx context.Context, transport string) (servers []*server, err error) {
	front, zone, network := strings.ReplaceAll(productionBody, "    reload\n", ""), ".", "tcp"
	if transport == "tls" { // shed is for UDP
		front, zone, network = "    tls CERTS/tls.crt CERTS/tls.key\n"+strings.ReplaceAll(front, "    shed\n", ""), "tls://.", "tcp-tls"
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
		nsd, err := b.startNSD(ctx, "tcp")
		servers = append(servers, nsd...)
		if err != nil {
			return servers, err
		}
	}
	for _, s := range servers {
		if err := s.await(ctx, b.objects.headlessName(0)); err != nil {
			return servers, err
		}
	}
	return servers, nil
}
