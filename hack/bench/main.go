// Command bench measures the DNS server against its peers, with the same objects in a real API server, and prints tables.
//
// Compare only figures of one run, by their ratio: ours and the peer take turns, round by round, so that a noisy machine slows both.
// Allocations and bytes don't depend on the machine at all.
//
//	make bench                        # everything, about eleven minutes
//	make bench BENCH="-only process"
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/clusterset/clusterset/test/kube"
)

// bench is one run: the binaries to compare, the settings, and a control plane with objects.
type bench struct {
	coredns  string
	stock    string
	dir      string
	plane    *kube.ControlPlane
	objects  objects
	profiles string
	rounds   int
	duration time.Duration
}

var parts = []struct {
	name string
	what string
	run  func(context.Context, *bench) error
}{
	{"handlers", "ServeDNS of the two plugins, in process", handlers},
	{"process", "whole servers under dnsperf, pinned to one core", process},
	{"production", "whole servers with the Corefile that people run, with and without the express path", production},
	{"tcp", "the same over TCP and TLS, and NSD", streams},
	{"nodelocal", "the same behind a NodeLocal DNSCache, which asks over TCP", nodeLocal},
	{"memory", "heap that the objects add to a server", memory},
	{"startup", "time from start to the first right answer", startup},
	{"updates", "time from a watch event to the answers", updates},
}

func main() {
	if len(os.Args) == 5 && os.Args[1] == echoArg {
		fmt.Fprintln(os.Stderr, "bench:", echo(os.Args[2], os.Args[3], os.Args[4]))
		os.Exit(1)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	b := &bench{}
	flag.StringVar(&b.coredns, "coredns", "bin/coredns", "the coredns `binary` under test")
	flag.StringVar(&b.stock, "stock", "bin/coredns-stock", "the stock coredns `binary`, in which the peers run")
	flag.IntVar(&b.rounds, "rounds", 5, "rounds, each of one turn for everyone; the median counts")
	flag.DurationVar(&b.duration, "duration", 3*time.Second, "length of one dnsperf turn")
	flag.StringVar(&b.profiles, "profiles", "", "`directory` for a CPU profile of each server under each load (parts process and production)")
	flag.IntVar(&b.objects.services, "services", 10000, "ClusterSetIP services")
	flag.IntVar(&b.objects.headless, "headless", 1000, "headless services of ten endpoints")
	only := flag.String("only", "", "comma-separated parts to run: handlers, process, production, tcp, nodelocal, memory, startup, updates")
	flag.Parse()

	dir, err := os.MkdirTemp("", "clusterset-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b.dir = dir
	if b.coredns, err = filepath.Abs(b.coredns); err != nil {
		return err
	}
	if b.stock, err = filepath.Abs(b.stock); err != nil {
		return err
	}
	if err := b.prepare(ctx); err != nil {
		return err
	}
	defer b.plane.Stop()
	for _, part := range parts {
		if *only != "" && !strings.Contains(","+*only+",", ","+part.name+",") {
			continue
		}
		fmt.Printf("\n## %s: %s\n\n", part.name, part.what)
		if err := part.run(ctx, b); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	return nil
}

// prepare starts the control plane and fills it.
func (b *bench) prepare(ctx context.Context) (err error) {
	fmt.Fprintln(os.Stderr, "bench: starting etcd and kube-apiserver (the first time they are compiled, which takes some minutes)")
	b.plane, err = kube.Launch(ctx, filepath.Join(b.dir, "plane"), kube.WithProgress(os.Stderr))
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "bench: creating %d services and %d headless services of ten endpoints\n", b.objects.services, b.objects.headless)
	return b.objects.create(ctx, b.plane)
}
