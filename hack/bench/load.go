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

	"github.com/miekg/dns"

	"github.com/clusterset/clusterset/hack/proc"
)

// query is one kind of query. It is sent for many names in turn, so that no single service stays in a cache.
type query struct {
	name  string
	qtype uint16
	qname func(i int) string
}

// plain is a query for A. The echo gets no other.
func (b *bench) plain() query { return query{"ClusterSetIP A", dns.TypeA, b.objects.service} }

// queries ask for names in clusterset.local.
func (b *bench) queries() []query {
	return []query{
		b.plain(),
		{"headless, 10 A", dns.TypeA, b.objects.headlessName},
		{"SRV", dns.TypeSRV, func(i int) string { return "_http._tcp." + b.objects.service(i) }},
		{"NXDOMAIN", dns.TypeA, func(i int) string { return fmt.Sprintf("nope-%d.ns-0.svc.clusterset.local.", i) }},
		{"NODATA", dns.TypeAAAA, b.objects.service},
	}
}

// own ask for the cluster's own names.
func (b *bench) own() []query {
	return []query{
		{"cluster.local A", dns.TypeA, b.objects.local},
		{"cluster.local headless, 10 A", dns.TypeA, b.objects.localHeadless},
		{"cluster.local SRV", dns.TypeSRV, func(i int) string { return "_http._tcp." + b.objects.local(i) }},
	}
}

// load is the result of a server under dnsperf. half and most are the median and the 99th percentile of the times until an answer, in seconds.
type load struct{ micros, qps, half, most float64 }

// compare sends queries as fast as the servers answer, and prints what each server takes, as processor time and in relation to ours. It returns
// the results of the last query.
func (b *bench) compare(ctx context.Context, title string, servers []*server, queries []query, args ...string) (map[string]load, error) {
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(out, title)
	for _, column := range []string{"%s µs/q", "%s / ours", "%s qps"} {
		for _, s := range servers {
			fmt.Fprintf(out, "\t"+column, s.name)
		}
	}
	fmt.Fprintln(out, "\t")
	var all map[string]load
	for _, q := range queries {
		var err error
		if all, err = b.contest(ctx, q, servers, args...); err != nil {
			return nil, err
		}
		fmt.Fprint(out, q.name)
		for _, s := range servers {
			fmt.Fprintf(out, "\t%.2f", all[s.name].micros)
		}
		for _, s := range servers {
			fmt.Fprintf(out, "\t%.2f", all[s.name].micros/all["ours"].micros)
		}
		for _, s := range servers {
			fmt.Fprintf(out, "\t%.0f", all[s.name].qps)
		}
		fmt.Fprintln(out, "\t")
	}
	return all, out.Flush()
}

// contest gives every server a turn in every round, and returns the medians. args are further arguments of dnsperf.
func (b *bench) contest(ctx context.Context, q query, servers []*server, args ...string) (map[string]load, error) {
	turns := map[string][]load{}
	for range b.rounds {
		for _, s := range servers {
			l, err := b.turn(ctx, s, q, args...)
			if err != nil {
				return nil, err
			}
			turns[s.name] = append(turns[s.name], l)
		}
	}
	result := map[string]load{}
	for name, all := range turns {
		of := func(get func(load) float64) float64 {
			var values []float64
			for _, l := range all {
				values = append(values, get(l))
			}
			return median(values)
		}
		result[name] = load{
			of(func(l load) float64 { return l.micros }), of(func(l load) float64 { return l.qps }),
			of(func(l load) float64 { return l.half }), of(func(l load) float64 { return l.most }),
		}
	}
	return result, nil
}

func median(values []float64) float64 { return slices.Sorted(slices.Values(values))[len(values)/2] }

var (
	completedRE = regexp.MustCompile(`Queries completed:\s+([1-9]\d*)`)
	qpsRE       = regexp.MustCompile(`Queries per second:\s+([\d.]+)`)
	waitRE      = regexp.MustCompile(`(?m)^> \S+ \S+ \S+ ([\d.]+)$`) // if dnsperf is verbose
)

// turn runs dnsperf with further arguments against one server, on the core that the servers don't use.
func (b *bench) turn(ctx context.Context, s *server, q query, args ...string) (load, error) {
	if s.name == "echo" {
		q = b.plain()
	}
	data, err := b.dnsperfData(q)
	if err != nil {
		return load{}, err
	}
	host, port, _ := strings.Cut(s.addr, ":")
	before := proc.CPU(proc.Tree(s.process.PID())...)
	seconds := strconv.Itoa(max(1, int(b.duration.Seconds())))
	args = append([]string{"-c", "1", "dnsperf", "-s", host, "-p", port, "-d", data, "-l", seconds, "-c", "4", "-q", "200"}, args...)
	text, err := exec.CommandContext(ctx, "taskset", args...).CombinedOutput() //nolint:gosec // our own arguments
	if err != nil {
		return load{}, fmt.Errorf("dnsperf (Debian package dnsperf): %w\n%s", err, text)
	}
	after := proc.CPU(proc.Tree(s.process.PID())...)
	completed, qps := completedRE.FindSubmatch(text), qpsRE.FindSubmatch(text)
	if completed == nil || qps == nil {
		return load{}, fmt.Errorf("dnsperf printed no figures:\n%s", text)
	}
	var l load
	n, _ := strconv.ParseFloat(string(completed[1]), 64)
	l.micros = float64((after - before).Microseconds()) / n
	l.qps, _ = strconv.ParseFloat(string(qps[1]), 64)
	var waits []float64
	for _, match := range waitRE.FindAllSubmatch(text, -1) {
		wait, _ := strconv.ParseFloat(string(match[1]), 64)
		waits = append(waits, wait)
	}
	if n := len(waits); n > 0 {
		slices.Sort(waits)
		l.half, l.most = waits[n/2], waits[n*99/100]
	}
	return l, nil
}

// dnsperfData writes queries to a file in dnsperf's format and returns its path.
func (b *bench) dnsperfData(q query) (string, error) {
	var text strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&text, "%s %s\n", q.qname(i*7), dns.TypeToString[q.qtype])
	}
	path := filepath.Join(b.dir, strings.ReplaceAll(q.name, " ", "-")+".dnsperf")
	return path, os.WriteFile(path, []byte(text.String()), 0o600)
}
