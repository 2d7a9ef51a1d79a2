// Command bench measures the DNS server against its peers, with the same objects in a real API server, and prints tables.
//
// Compare only figures of one run, by their ratio: ours and the peers take turns, round by round, so that a noisy machine slows all.
//
//	make bench                        # everything
//	make bench BENCH="-only memory"
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/clusterset/clusterset/test/fleet"
	"github.com/clusterset/clusterset/test/kube"
)

// bench is one run: the binaries to compare, the settings, and a control plane with objects.
type bench struct {
	coredns  string
	stock    string
	dir      string
	cluster  fleet.Cluster
	objects  objects
	rounds   int
	duration time.Duration
}

var parts = []struct {
	name string
	what string
	run  func(context.Context, *bench) error
}{
	{"udp", "processor time per query in µs, with the Corefile that people run", compareOver("udp")},
	{"tcp", "the same over TCP", compareOver("tcp")},
	{"memory", "heap that the objects add to a server", memory},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	b := &bench{}
	flag.StringVar(&b.coredns, "coredns", "bin/coredns", "the coredns `binary` under test")
	flag.StringVar(&b.stock, "stock", "bin/coredns-stock", "the stock coredns `binary`, in which the peers run")
	flag.IntVar(&b.rounds, "rounds", 5, "rounds, each of one turn for everyone; the median counts")
	flag.DurationVar(&b.duration, "duration", 3*time.Second, "length of one dnsperf turn")
	flag.IntVar(&b.objects.services, "services", 10000, "ClusterSetIP services")
	flag.IntVar(&b.objects.headless, "headless", 1000, "headless services of ten endpoints")
	only := flag.String("only", "", "comma-separated parts to run: udp, tcp, memory")
	flag.Parse()

	if b.dir, err = os.MkdirTemp("", "clusterset-bench-"); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(b.dir) }()
	fmt.Fprintln(os.Stderr, "bench: starting etcd and kube-apiserver (the first time they are compiled, which takes some minutes)")
	b.cluster.Dir = filepath.Join(b.dir, "plane")
	if err := b.cluster.Launch(ctx, kube.WithProgress(os.Stderr)); err != nil {
		return err
	}
	defer b.cluster.Stop()
	fmt.Fprintf(os.Stderr, "bench: creating %d services and %d headless services of ten endpoints\n", b.objects.services, b.objects.headless)
	if err := b.objects.create(ctx, &b.cluster); err != nil {
		return err
	}
	for _, part := range parts {
		if *only != "" && !slices.Contains(strings.Split(*only, ","), part.name) {
			continue
		}
		fmt.Printf("\n## %s: %s\n\n", part.name, part.what)
		if err := part.run(ctx, b); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	return nil
}
