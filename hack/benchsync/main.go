// Command benchsync measures the control plane with real API servers and real processes, and prints one table: how soon another cluster
// answers an export, how long an agent takes to import the contents of a large hub, how soon a drain reaches ClusterSetIPs, what the agent
// writes when nothing has changed, and how many watches it opens on the hub.
//
// The agent and CoreDNS of the cluster near are measured. The cluster far exports. Any number of other clusters exist only as records on
// the hub; near can't tell the difference. Writes and watches are counted in the API servers' audit logs, which record the account of each
// request.
//
//	go run ./hack/benchsync
//	go run ./hack/benchsync -slices 20000 -clusters 12 -only restart
//	CLUSTERS=25 SERVICES=40 go run ./hack/benchsync -only scale
//	go run ./hack/benchsync -only communities
//	go run ./hack/benchsync -only storm
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/clusterset/clusterset/test/fleet"
	"github.com/clusterset/clusterset/test/ownnet"
)

// bench is one run.
type bench struct {
	dir              string
	bin              fleet.Binaries
	changes          int
	clusters         int
	services, slices int
	endpointsPer     int
	drained          int
	limit            time.Duration
	hub              *hub
	near, far        *member
	members          []*member // near and, if the parts need it, far
	sizes            sizes     // for a part that needs its own hub
	table            *tabwriter.Writer
}

// part is a group of measurements.
type part struct {
	name  string
	run   func(*bench, context.Context) error
	sizes *sizes // defaults, which the environment overrides; nil if the part has no world
}

var parts = []part{
	{"watches", (*bench).watchesOfFew, nil},
	{"latency", (*bench).latencyAlone, nil},
	{"restart", (*bench).restarts, nil},
	{"drain", (*bench).drains, nil},
	{"extend", (*bench).extends, nil},
}

// These parts run only if they are named, because each needs its own hub and takes long.
var (
	scale = part{"scale", (*bench).scale, &sizes{
		clusters: 250, services: 100, endpoints: 10, sharing: 10, rate: 50, time: 5 * time.Minute, rolled: 500, idle: time.Minute,
	}}
	communities = part{"communities", (*bench).communities, &sizes{
		clusters: 50, services: 20, endpoints: 4, sharing: 1, idle: time.Minute, communities: []int{0, 5, 10, 50},
	}}
	storm = part{"storm", (*bench).storm, &sizes{clusters: 250, services: 20, endpoints: 1, time: time.Minute, rolled: 10, idle: 30 * time.Second}}
)

func (b *bench) flags() (only *string) {
	flag.StringVar(&b.bin.Clusterset, "clusterset", "", "the clusterset `binary` (default: build it)")
	flag.StringVar(&b.bin.CoreDNS, "coredns", "", "the coredns `binary` (default: build it)")
	flag.IntVar(&b.changes, "changes", 200, "how many changes to time, of each sort")
	flag.IntVar(&b.clusters, "clusters", 6, "how many clusters the large hub has")
	flag.IntVar(&b.services, "services", 1060, "how many services the others export to the large hub")
	flag.IntVar(&b.slices, "slices", 5300, "how many ExportedEndpoints those have")
	flag.IntVar(&b.endpointsPer, "endpoints", 10, "how many endpoints each has, at most 100")
	flag.IntVar(&b.drained, "drained", 1000, "how many services a cluster that is drained exports beside another")
	flag.DurationVar(&b.limit, "limit", 15*time.Minute, "give up what takes longer than this")
	only = flag.String("only", "", "comma-separated parts to run: watches, latency, restart, drain, extend; or one of scale, communities and storm")
	flag.Parse()
	return only
}

func main() {
	if err := ownnet.Enter(); err != nil { // the part extend has beacons
		fmt.Fprintln(os.Stderr, "benchsync:", err)
		os.Exit(1)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "benchsync:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	log.SetLogger(logr.Discard())
	b := &bench{}
	only := b.flags()
	if b.clusters < 3 || b.slices < b.services || b.services < 1 || b.changes < 1 {
		return fmt.Errorf("want three clusters, a service, a slice for each and a change, at least")
	}
	chosen := parts
	if *only != "" {
		chosen = slices.DeleteFunc(slices.Clone(parts), func(p part) bool { return !slices.Contains(strings.Split(*only, ","), p.name) })
	}
	var err error
	for _, p := range []part{scale, communities, storm} {
		if *only != p.name {
			continue
		}
		chosen = []part{p}
		if b.sizes, err = sizesFrom(os.Getenv, *p.sizes); err != nil {
			return err
		}
	}
	if len(chosen) == 0 {
		return fmt.Errorf("-only %s names no part", *only)
	}
	if b.dir, err = os.MkdirTemp("", "benchsync-"); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(b.dir) }()
	if err := b.build(ctx); err != nil {
		return err
	}
	return b.measure(ctx, chosen, os.Stdout)
}

// measure launches what the parts need, runs them, and writes the table of the results, even if a part fails. It writes the table at the
// end, because errors in between would break it up.
func (b *bench) measure(ctx context.Context, chosen []part, out io.Writer) error {
	var text strings.Builder
	b.table = tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	b.row("", "p50", "p99", "max", "result")
	defer func() {
		_ = b.table.Flush()
		for line := range strings.Lines(text.String()) {
			fmt.Fprintln(out, strings.TrimRight(line, " \n"))
		}
	}()
	b.describe(chosen[0].sizes == nil)
	defer b.stop()
	if err := b.launch(ctx); err != nil {
		return err
	}
	for _, part := range chosen {
		if err := part.run(b, ctx); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	return nil
}

// row adds a line to the table.
func (b *bench) row(cells ...any) {
	for _, c := range cells {
		fmt.Fprintf(b.table, "%v\t", c)
	}
	fmt.Fprintln(b.table)
}

// say prints progress to standard error, apart from the table.
func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "benchsync: "+format+"\n", args...)
}

// build compiles the binaries that the flags don't name.
func (b *bench) build(ctx context.Context) error {
	given := b.bin
	if given.Clusterset == "" || given.CoreDNS == "" {
		b.say("building clusterset and coredns")
		var err error
		if b.bin, err = fleet.Build(ctx, ".", b.dir, "-s -w"); err != nil {
			return err
		}
	}
	for _, path := range []struct {
		given string
		to    *string
	}{{given.Clusterset, &b.bin.Clusterset}, {given.CoreDNS, &b.bin.CoreDNS}} {
		if path.given == "" {
			continue
		}
		abs, err := filepath.Abs(path.given)
		if err != nil {
			return err
		}
		*path.to = abs
	}
	return nil
}
