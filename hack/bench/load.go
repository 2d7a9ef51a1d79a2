package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/clusterset/clusterset/hack/proc"
)

// query is one kind of query, for A. It is sent for many names in turn, so that no single service stays in a cache. NSD doesn't know the names
// of the cluster itself.
type query struct {
	name  string
	qname func(i int) string
	own   bool
}

func (b *bench) queries(transport string) []query {
	all := []query{
		{"ClusterSetIP A", b.objects.service, false},
		{"headless, 10 A", b.objects.headlessName, false},
		{"NXDOMAIN", func(i int) string { return fmt.Sprintf("nope-%d.ns-0.svc.clusterset.local.", i) }, false},
		{"cluster.local A", b.objects.local, true},
		{"cluster.local headless, 10 A", b.objects.localHeadless, true},
	}
	if transport == "tcp" {
		all = append(all, query{"headless, 100 A", func(int) string { return hl100 }, false}) // over UDP it would measure truncation
	}
	return all
}

func compareOver(transport string) func(context.Context, *bench) error {
	return func(ctx context.Context, b *bench) error { return b.compare(ctx, transport) }
}

// compare sends queries as fast as the servers answer, every server a turn in every round, and prints the medians of what each takes for a query.
func (b *bench) compare(ctx context.Context, transport string) error {
	servers, err := b.startPeers(ctx, transport)
	defer func() { stop(servers...) }()
	if err != nil {
		return err
	}
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, s := range servers {
		fmt.Fprint(out, "\t", s.name)
	}
	fmt.Fprintln(out, "\tin-tree / ours\t")
	for _, q := range b.queries(transport) {
		turns := map[string][]float64{}
		for range b.rounds {
			for _, s := range servers {
				if q.own && s.name == nsd {
					continue
				}
				micros, err := b.turn(ctx, s, q)
				if err != nil {
					return err
				}
				turns[s.name] = append(turns[s.name], micros)
			}
		}
		fmt.Fprint(out, q.name)
		for _, s := range servers {
			if len(turns[s.name]) == 0 {
				fmt.Fprint(out, "\t")
				continue
			}
			fmt.Fprintf(out, "\t%.2f", median(turns[s.name]))
		}
		fmt.Fprintf(out, "\t%.1f\t\n", median(turns[inTree])/median(turns[ours]))
	}
	return out.Flush()
}

func median(values []float64) float64 { return slices.Sorted(slices.Values(values))[len(values)/2] }

// load is dnsperf's arguments: over TCP few connections that stay open, as a cache on each node has.
var load = map[string][]string{"udp": {"-c", "4", "-q", "200"}, "tcp": {"-c", "16", "-q", "200", "-m", "tcp"}}

var completedRE = regexp.MustCompile(`Queries completed:\s+([1-9]\d*)`)

// turn runs dnsperf against one server, on the core that the servers don't use, and returns the server's processor time per query in µs.
func (b *bench) turn(ctx context.Context, s *server, q query) (float64, error) {
	var text strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&text, "%s A\n", q.qname(i*7))
	}
	data := filepath.Join(b.dir, "queries")
	if err := os.WriteFile(data, []byte(text.String()), 0o600); err != nil {
		return 0, err
	}
	host, port, _ := strings.Cut(s.addr, ":")
	seconds := strconv.Itoa(max(1, int(b.duration.Seconds())))
	args := append([]string{"-c", "1", "dnsperf", "-s", host, "-p", port, "-d", data, "-l", seconds}, load[s.net]...)
	before := proc.CPU(proc.Tree(s.process.PID())...)
	said, err := exec.CommandContext(ctx, "taskset", args...).CombinedOutput() //nolint:gosec // our own arguments
	if err != nil {
		return 0, fmt.Errorf("dnsperf (Debian package dnsperf): %w\n%s", err, said)
	}
	after := proc.CPU(proc.Tree(s.process.PID())...)
	completed := completedRE.FindSubmatch(said)
	if completed == nil {
		return 0, fmt.Errorf("dnsperf printed no figures:\n%s", said)
	}
	n, _ := strconv.ParseFloat(string(completed[1]), 64)
	return float64((after - before).Microseconds()) / n, nil
}
