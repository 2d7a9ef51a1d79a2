package main

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/miekg/dns"
)

// nodeBody is the Corefile of NodeLocal DNSCache for the cluster's zones. It asks the cluster DNS over TCP.
const nodeBody = `    errors
CACHE    loop
    forward . UPSTREAM {
        force_tcp
    }
    prometheus 127.0.0.1:PORT`

const nodeCache = `    cache {
        success 9984 30
        denial 9984 5
    }
`

// nodeLocal sends queries over UDP to a cache of a node, which asks each server in turn for what it doesn't have. Only the names of a search
// path are so many that its cache has none of them; the other queries are asked of a node without a cache. Nodes and servers share a core.
func nodeLocal(ctx context.Context, b *bench) error {
	asked, err := b.startStreams(ctx, "tcp")
	defer func() {
		for _, s := range asked {
			s.stop()
		}
	}()
	if err != nil {
		return err
	}
	for _, kind := range []struct {
		cache string
		query query
	}{
		{nodeCache, b.unrepeated()},
		{"", b.plain()},
		{"", query{"cluster.local A", dns.TypeA, b.objects.local}},
	} {
		if err := b.throughNodes(ctx, kind.query, kind.cache, withoutNSD(asked)[1:]); err != nil {
			return err
		}
	}
	return nil
}

// unrepeated asks for names of a search path, each once.
func (b *bench) unrepeated() query {
	n := 0
	return query{"search path NXDOMAIN", dns.TypeA, func(int) string {
		n++
		return b.objects.searched(n)
	}}
}

// throughNodes measures one kind of query through a node for each server: as many as they answer, and at a rate that all can sustain.
func (b *bench) throughNodes(ctx context.Context, q query, cache string, servers []*server) error {
	var nodes []*server
	defer func() {
		for _, s := range nodes {
			s.stop()
		}
	}()
	for _, s := range servers {
		node, err := b.start(ctx, "node-"+s.name, ".", strings.NewReplacer("CACHE", cache, "UPSTREAM", s.addr).Replace(nodeBody))
		if err != nil {
			return err
		}
		nodes = append(nodes, node)
		if err := node.await(ctx, b.objects.service(0)); err != nil {
			return err
		}
	}
	qps, err := b.onNodes(ctx, q, nodes, 60_000)
	if err != nil {
		return err
	}
	rate := int(median(qps[nodes[len(nodes)-1].name].qps) / 3)
	steady, err := b.onNodes(ctx, q, nodes, rate, "-v", "-Q", strconv.Itoa(rate))
	if err != nil {
		return err
	}
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(out, "%s\tqps\tp50 ms at %d a second\tp99 ms\tin the node's cache %%\t\n", q.name, rate)
	for _, node := range nodes {
		hits, err := b.hits(ctx, node.name)
		if err != nil {
			return err
		}
		l := steady[node.name]
		fmt.Fprintf(out, "%s\t%.0f\t%.2f\t%.2f\t%.1f\t\n", node.name, median(qps[node.name].qps), 1000*median(l.half), 1000*median(l.most), 100*hits)
	}
	fmt.Fprintln(out)
	return out.Flush()
}

// seen is what a client sees of a node, in each turn.
type seen struct{ qps, half, most []float64 }

// onNodes gives each node a turn in every round, with new queries, perSecond at most.
func (b *bench) onNodes(ctx context.Context, q query, nodes []*server, perSecond int, args ...string) (map[string]*seen, error) {
	all := map[string]*seen{}
	for range b.rounds {
		for _, node := range nodes {
			data, err := b.dnsperfLines(q, perSecond*max(1, int(b.duration.Seconds())))
			if err != nil {
				return nil, err
			}
			l, err := b.turn(ctx, node, data, args...)
			if err != nil {
				return nil, err
			}
			if all[node.name] == nil {
				all[node.name] = &seen{}
			}
			s := all[node.name]
			s.qps = append(s.qps, l.qps)
			if n := len(l.waits); n > 0 {
				s.half, s.most = append(s.half, l.waits[n/2]), append(s.most, l.waits[n*99/100])
			}
		}
	}
	return all, nil
}

var cacheRE = regexp.MustCompile(`(?m)^coredns_cache_(hits|requests)_total\{.*\} ([\d.e+]+)$`)

// hits returns the share of a node's queries that its cache answered.
func (b *bench) hits(ctx context.Context, name string) (float64, error) {
	port, err := b.secondPort(name)
	if err != nil {
		return 0, err
	}
	text, err := get(ctx, fmt.Sprintf("http://127.0.0.1:%d/metrics", port))
	if err != nil {
		return 0, err
	}
	counts := map[string]float64{}
	for _, m := range cacheRE.FindAllSubmatch(text, -1) {
		n, err := strconv.ParseFloat(string(m[2]), 64)
		if err != nil {
			return 0, err
		}
		counts[string(m[1])] += n
	}
	return counts["hits"] / max(1, counts["requests"]), nil
}
