// Command benchsync measures the control plane with real API servers and real processes, and prints one table: the figures of docs/sizing.md.
//
// The agent and CoreDNS of the cluster near are measured. The cluster far exports. Any number of other clusters exist only as records on
// the hub; near can't tell the difference. Writes are counted in the API servers' audit logs, which record the account of each request.
//
//	go run ./hack/benchsync
//	go run ./hack/benchsync -only restart
//	CLUSTERS=25 SERVICES=40 go run ./hack/benchsync -only scale
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/clusterset/clusterset/test/fleet"
)

// bench is one run.
type bench struct {
	dir       string
	bin       fleet.Binaries
	hub       *fleet.Hub
	near, far *fleet.Member
	members   []*fleet.Member // near and, if the parts need it, far
	sizes     sizes           // of the part that runs
	table     *tabwriter.Writer
}

// part is a group of measurements.
type part struct {
	name  string
	run   func(*bench, context.Context) error
	sizes sizes
	far   bool // it needs far
	alone bool // it needs its own hub and takes long, so it runs only if it is named
}

var (
	scale = part{name: "scale", run: (*bench).scale, alone: true, sizes: sizes{
		clusters: 250, services: 100, slices: 1, endpoints: 10, sharing: 10, rate: 50, time: 5 * time.Minute, rolled: 500, idle: time.Minute,
	}}
	storm = part{name: "storm", run: (*bench).storm, far: true, alone: true, sizes: sizes{clusters: 250, services: 8, rolled: 4, time: time.Minute}}
	parts = []part{
		{name: "latency", run: (*bench).latency, far: true},
		{name: "restart", run: (*bench).restarts, sizes: sizes{clusters: 5, services: 265, slices: 5, endpoints: 10, sharing: 1}},
		scale, storm,
	}
)

// sizes describe a world and the changes made to it. What a part doesn't use is 0.
type sizes struct {
	clusters  int           // members, including near
	services  int           // exported by each of the others
	slices    int           // of each service
	endpoints int           // of each slice, at most 100
	sharing   int           // number of clusters that export half of their services under the same names
	rate      int           // changes a second
	time      time.Duration // how long changes are made at that rate, or the hub is away
	rolled    int           // services whose endpoints are all replaced at once; for a storm, of each cluster
	idle      time.Duration // how long nothing changes
}

// sizesFrom overrides those sizes of a part that are set in the environment.
func sizesFrom(getenv func(string) string, s sizes) (sizes, error) {
	var errs []error
	for name, of := range map[string]struct {
		to    *int
		least int
	}{
		"CLUSTERS": {&s.clusters, 2}, "SERVICES": {&s.services, 2}, "ENDPOINTS": {&s.endpoints, 1}, "RATE": {&s.rate, 1},
	} {
		v := getenv(name)
		if v == "" || *of.to == 0 {
			continue
		}
		n, err := strconv.Atoi(v)
		if err != nil || n < of.least {
			errs = append(errs, fmt.Errorf("%s=%s: want a number from %d", name, v, of.least))
		}
		*of.to = n
	}
	for name, to := range map[string]*time.Duration{"TIME": &s.time, "IDLE": &s.idle} {
		v := getenv(name)
		if v == "" || *to == 0 {
			continue
		}
		d, err := time.ParseDuration(v)
		if err != nil || d < time.Second {
			errs = append(errs, fmt.Errorf("%s=%s: want a duration from 1s, such as 5m", name, v))
		}
		*to = d
	}
	return s, errors.Join(errs...)
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "benchsync:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	only := flag.String("only", "", "comma-separated parts to run: latency, restart; or one of scale and storm")
	flag.Parse()
	var chosen []part
	for _, p := range parts {
		if *only == "" && !p.alone || slices.Contains(strings.Split(*only, ","), p.name) {
			var err error
			if p.sizes, err = sizesFrom(os.Getenv, p.sizes); err != nil {
				return err
			}
			chosen = append(chosen, p)
		}
	}
	if len(chosen) == 0 || len(chosen) > 1 && slices.ContainsFunc(chosen, func(p part) bool { return p.alone }) {
		return fmt.Errorf("-only %s names no part, or one that runs alone with others", *only)
	}
	dir, err := os.MkdirTemp("", "benchsync-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	b := &bench{dir: dir}
	return b.measure(ctx, ".", chosen, os.Stdout)
}

// measure builds and launches what the parts need, runs them, and writes the table of the results, even if a part fails. It writes the table
// at the end, because errors in between would break it up.
func (b *bench) measure(ctx context.Context, repository string, chosen []part, out io.Writer) (err error) {
	log.SetLogger(logr.Discard())
	b.say("building clusterset and coredns")
	if b.bin, err = fleet.Build(ctx, repository, b.dir, "-s -w"); err != nil {
		return err
	}
	var text strings.Builder
	b.table = tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	b.row("", "p50", "p99", "max", "result")
	defer func() {
		_ = b.table.Flush()
		for line := range strings.Lines(text.String()) {
			fmt.Fprintln(out, strings.TrimRight(line, " \n"))
		}
	}()
	b.describe(slices.ContainsFunc(chosen, func(p part) bool { return p.far }))
	defer b.stop()
	if err := b.launch(ctx); err != nil {
		return err
	}
	for _, part := range chosen {
		b.sizes = part.sizes
		if err := part.run(b, ctx); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	return nil
}

// row adds a line to the table.
func (b *bench) row(cells ...string) { fmt.Fprintln(b.table, strings.Join(cells, "\t")+"\t") }

// result adds a line that has no times.
func (b *bench) result(what, format string, args ...any) {
	b.row(what, "", "", "", fmt.Sprintf(format, args...))
}

func (b *bench) percentiles(what string, all []time.Duration) {
	slices.Sort(all)
	at := func(p float64) string { return round(all[min(len(all)-1, int(p*float64(len(all))))]) }
	b.row(what, at(0.5), at(0.99), at(1), fmt.Sprintf("%d changes", len(all)))
}

func round(d time.Duration) string {
	if d > 10*time.Second {
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Millisecond).String()
}

// say prints progress to standard error, apart from the table.
func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "benchsync: "+format+"\n", args...)
}
