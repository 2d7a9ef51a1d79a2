package main

import (
	"context"
	"errors"
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
)

const (
	pprofBody = "    pprof 127.0.0.1:PORT\n"
	oursBody  = `    clusterset {
        kubeconfig KUBECONFIG
        location cluster-1 zone-1 region-1
        startup_timeout 60s
    }`
	inTreeBody = `    kubernetes cluster.local clusterset.local {
        kubeconfig KUBECONFIG
        multicluster clusterset.local
        startup_timeout 60s
    }`
	// erratic does almost nothing, so its cost is that of the CoreDNS server itself.
	erraticBody = `    erratic {
        drop 0
        truncate 0
        delay 0
    }`
)

// process sends queries to whole servers as fast as they answer, and divides the processor time that they use by the number of queries.
func process(ctx context.Context, b *bench) error {
	servers := make([]*server, 0, 3)
	defer func() {
		for _, s := range servers {
			s.stop()
		}
	}()
	for _, s := range []struct{ name, zone, body string }{
		// Here ours runs the plugin chain; the part production measures the express path.
		{"ours", "clusterset.local", strings.Replace(oursBody, "clusterset {", "clusterset {\n        express off", 1)}, {"in-tree", ".", inTreeBody}, {"erratic", ".", erraticBody},
	} {
		srv, err := b.start(ctx, s.name, s.zone, pprofBody+s.body)
		if err != nil {
			return err
		}
		servers = append(servers, srv)
		if err := srv.await(ctx, b.objects.headlessName(0)); err != nil {
			return err
		}
		if s.name == "erratic" {
			if srv.asked, err = b.dnsperfData(b.plain()); err != nil {
				return err
			}
		}
	}
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(out, "query\tours µs/q\tin-tree\terratic A\tours/erratic\tours qps\tin-tree qps\tratio\t")
	for _, q := range b.queries() {
		if q.name == "headless 100 A" {
			continue // over 512 bytes: it would measure truncation
		}
		result, err := b.contest(ctx, q, servers)
		if err != nil {
			return err
		}
		if err := b.profile(ctx, q, servers); err != nil {
			return err
		}
		ours, inTree, erratic := result["ours"], result["in-tree"], result["erratic"]
		fmt.Fprintf(out, "%s\t%.2f\t%.2f\t%.2f\t%.2f\t%.0f\t%.0f\t%.2f\t\n", q.name,
			ours.micros, inTree.micros, erratic.micros, ours.micros/erratic.micros, ours.qps, inTree.qps, ours.qps/inTree.qps)
	}
	return out.Flush()
}

// load is the result of a server under dnsperf. waits are the times until each answer, in seconds and ascending, if dnsperf was verbose.
type load struct {
	micros, qps float64
	waits       []float64
}

var waitRE = regexp.MustCompile(`(?m)^> \S+ \S+ \S+ ([\d.]+)$`)

func waits(text []byte) (all []float64) {
	for _, match := range waitRE.FindAllSubmatch(text, -1) {
		if wait, err := strconv.ParseFloat(string(match[1]), 64); err == nil {
			all = append(all, wait)
		}
	}
	slices.Sort(all)
	return all
}

// contest gives every server a turn in every round, and returns the medians. args are further arguments of dnsperf.
func (b *bench) contest(ctx context.Context, q query, servers []*server, args ...string) (map[string]load, error) {
	data, err := b.dnsperfData(q)
	if err != nil {
		return nil, err
	}
	micros, qps := map[string][]float64{}, map[string][]float64{}
	for range b.rounds {
		for _, s := range servers {
			l, err := b.turn(ctx, s, data, args...)
			if err != nil {
				return nil, err
			}
			micros[s.name], qps[s.name] = append(micros[s.name], l.micros), append(qps[s.name], l.qps)
		}
	}
	result := map[string]load{}
	for _, s := range servers {
		result[s.name] = load{micros: median(micros[s.name]), qps: median(qps[s.name])}
	}
	return result, nil
}

var (
	completedRE = regexp.MustCompile(`Queries completed:\s+(\d+)`)
	qpsRE       = regexp.MustCompile(`Queries per second:\s+([\d.]+)`)
)

// turn runs dnsperf with further arguments against one server, on the core that the servers don't use.
func (b *bench) turn(ctx context.Context, s *server, data string, args ...string) (load, error) {
	if s.asked != "" {
		data = s.asked
	}
	host, port, _ := strings.Cut(s.addr, ":")
	before, err := s.cpu()
	if err != nil {
		return load{}, err
	}
	seconds := strconv.Itoa(max(1, int(b.duration.Seconds())))
	args = append([]string{"-c", "1", "dnsperf", "-s", host, "-p", port, "-d", data, "-l", seconds, "-c", "4", "-q", "200"}, args...)
	text, err := exec.CommandContext(ctx, "taskset", args...).CombinedOutput() //nolint:gosec // our own arguments
	if err != nil {
		return load{}, fmt.Errorf("dnsperf (Debian package dnsperf): %w\n%s", err, text)
	}
	after, err := s.cpu()
	if err != nil {
		return load{}, err
	}
	completed, qps := completedRE.FindSubmatch(text), qpsRE.FindSubmatch(text)
	if completed == nil || qps == nil {
		return load{}, fmt.Errorf("dnsperf printed no figures:\n%s", text)
	}
	n, _ := strconv.ParseFloat(string(completed[1]), 64)
	q, _ := strconv.ParseFloat(string(qps[1]), 64)
	return load{micros: float64((after - before).Microseconds()) / n, qps: q, waits: waits(text)}, nil
}

// plain is a query for A. It is the only one for servers that know no services (erratic) or return what they receive (echo).
func (b *bench) plain() query { return query{"plain A", dns.TypeA, b.objects.service} }

// dnsperfData writes the queries to a file in dnsperf's format and returns its path.
func (b *bench) dnsperfData(q query) (string, error) { return b.dnsperfLines(q, 5000) }

// dnsperfLines does the same with n queries.
func (b *bench) dnsperfLines(q query, n int) (string, error) {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, "%s %s\n", q.qname(i*7), dns.TypeToString[q.qtype])
	}
	path := filepath.Join(b.dir, strings.ReplaceAll(q.name, " ", "-")+".dnsperf")
	return path, os.WriteFile(path, []byte(text.String()), 0o600)
}

// profile takes a CPU profile of each server under the load if -profiles is set. It runs separately from the contest, which profiling would
// slow down.
func (b *bench) profile(ctx context.Context, q query, servers []*server) error {
	if b.profiles == "" {
		return nil
	}
	data, err := b.dnsperfData(q)
	if err != nil {
		return err
	}
	for _, s := range servers {
		port, err := b.secondPort(s.name)
		if err != nil {
			return err
		}
		done := make(chan error, 1)
		go func() {
			_, err := b.turn(ctx, s, data)
			done <- err
		}()
		profile, err := get(ctx, fmt.Sprintf("http://127.0.0.1:%d/debug/pprof/profile?seconds=%d", port, max(1, int(b.duration.Seconds()))))
		if err := errors.Join(err, <-done); err != nil {
			return err
		}
		path := filepath.Join(b.profiles, s.name+"-"+strings.ReplaceAll(q.name, " ", "-")+".pprof")
		if err := os.WriteFile(path, profile, 0o600); err != nil {
			return err
		}
	}
	return nil
}
