package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/miekg/dns"

	"github.com/clusterset/clusterset/test/kube"
)

// process measures the plugin chain alone. The part production has the express path.
func process(ctx context.Context, b *bench) error {
	servers, err := b.startAll(ctx, "", ".", "", []block{{"ours", with(oursBody, "express off")}, {"in-tree", inTreeBody}})
	defer stop(servers...)
	if err != nil {
		return err
	}
	_, err = b.compare(ctx, "no other plugin, flooded", servers, b.queries())
	return err
}

// production measures servers with the usual Corefile over UDP: ours with and without the express path, and the in-tree plugin. The echo shows
// the cost of the packets.
func production(ctx context.Context, b *bench) error {
	servers, err := b.startPeers(ctx, "udp")
	defer func() { stop(servers...) }()
	if err != nil {
		return err
	}
	if _, err := b.compare(ctx, "UDP, flooded", servers, b.queries()); err != nil {
		return err
	}
	fmt.Println()
	all, err := b.compare(ctx, "UDP, flooded", withoutNSD(servers), b.own())
	if err != nil {
		return err
	}
	rate := int(all["in-tree"].qps / 3)
	steady, err := b.contest(ctx, b.plain(), servers, "-v", "-Q", strconv.Itoa(rate))
	if err != nil {
		return err
	}
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(out, "\nA at %d a second\tµs/q\t/ echo\tp50 / echo\tp99 / echo\t\n", rate)
	echo := steady["echo"]
	for _, s := range servers {
		l := steady[s.name]
		fmt.Fprintf(out, "%s\t%.2f\t%.2f\t%.2f\t%.2f\t\n", s.name, l.micros, l.micros/echo.micros, l.half/echo.half, l.most/echo.most)
	}
	return out.Flush()
}

// connections are dnsperf's arguments for queries over TCP: few connections that stay open, as a cache on each node has.
var connections = map[string][]string{"tcp": {"-c", "16", "-m", "tcp"}, "tls": {"-c", "16", "-m", "dot"}}

// streams measures the same servers over TCP, and over TLS.
func streams(ctx context.Context, b *bench) error {
	if _, err := kube.WriteCertificate(b.dir); err != nil {
		return err
	}
	for _, transport := range []string{"tcp", "tls"} {
		if err := b.streamsOver(ctx, transport); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) streamsOver(ctx context.Context, transport string) error {
	servers, err := b.startPeers(ctx, transport)
	defer func() { stop(servers...) }()
	if err != nil {
		return err
	}
	title := strings.ToUpper(transport) + ", flooded"
	hundred := query{"headless, 100 A", dns.TypeA, func(int) string { return hl100 }} // over UDP it would measure truncation
	if _, err := b.compare(ctx, title, servers, append(b.queries(), hundred), connections[transport]...); err != nil {
		return err
	}
	fmt.Println()
	_, err = b.compare(ctx, title, withoutNSD(servers), b.own(), connections[transport]...)
	fmt.Println()
	return err
}

// nodeLocal sends queries over UDP to NodeLocal DNSCaches, each of which asks one server over TCP. It has no cache here: the cluster's own names
// are so few that they would all be in it. Nodes and servers share a core.
func nodeLocal(ctx context.Context, b *bench) error {
	servers, err := b.startPeers(ctx, "tcp")
	defer func() { stop(servers...) }()
	if err != nil {
		return err
	}
	var nodes []block
	for _, s := range withoutNSD(servers)[1:] {
		nodes = append(nodes, block{s.name, "    errors\n    loop\n    forward . " + s.addr + " {\n        force_tcp\n    }\n    prometheus 127.0.0.1:ASIDE\n"})
	}
	started, err := b.startAll(ctx, "", ".", "node-", nodes)
	defer func() { stop(started...) }()
	if err != nil {
		return err
	}
	_, err = b.compare(ctx, "behind a node's cache, flooded", started, []query{b.plain(), b.own()[0]})
	return err
}

// block is a server block without its first and last line.
type block struct{ name, body string }

// startAll starts stock or our coredns with each block, and waits until they answer. It also returns those that it has started before an error.
func (b *bench) startAll(ctx context.Context, network, zone, prefix string, blocks []block) (servers []*server, err error) {
	for _, each := range blocks {
		s, err := b.start(prefix+each.name, zone, each.body)
		if err != nil {
			return servers, err
		}
		s.net, s.name = network, each.name
		servers = append(servers, s)
		if err := s.await(ctx, b.objects.headlessName(0)); err != nil {
			return servers, err
		}
	}
	return servers, nil
}

// startPeers starts the echo, servers with the usual Corefile for one transport, and NSD if it is installed.
func (b *bench) startPeers(ctx context.Context, transport string) (servers []*server, err error) {
	front, zone := productionBody, "."
	if transport != "udp" {
		front = strings.Replace(front, "    reload\n", "", 1)
	}
	if transport == "tls" { // shed is for UDP
		front, zone = "    tls CERTS/tls.crt CERTS/tls.key\n"+strings.Replace(front, "    shed\n", "", 1), "tls://."
	}
	echo, err := b.startEcho(transport)
	if err != nil {
		return nil, err
	}
	echo.net = map[string]string{"tcp": "tcp", "tls": "tcp-tls"}[transport]
	if err := echo.await(ctx, b.objects.service(0)); err != nil {
		return []*server{echo}, err
	}
	servers, err = b.startAll(ctx, echo.net, zone, "", []block{
		{"ours", front + oursBody + localBody}, {"ours-off", front + with(oursBody, "express off") + localBody}, {"in-tree", front + inTreeBody},
	})
	servers = append([]*server{echo}, servers...)
	if err != nil || transport == "tls" {
		return servers, err
	}
	nsd, err := b.startNSD(ctx, transport)
	return append(servers, nsd...), err
}
