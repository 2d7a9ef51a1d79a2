// Command demo runs a hub and three clusters on this machine, with real control planes, agents and DNS servers, and plays docs/demo.md: it runs
// each command of that page, and fails if the real processes print something else. `make demo` runs it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// script is the page that the demo plays.
const script = "docs/demo.md"

func main() {
	keep := flag.Bool("keep", false, "leave everything up at the end, until interrupted")
	transcript := flag.String("transcript", "", "write the page as it was played to this `file`, and don't fail if it differs")
	ldflags := flag.String("ldflags", "-s -w", "linker `flags` for our two programs")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	go func() {
		<-ctx.Done()
		stop() // a second Ctrl-C ends the demo at once, and the kernel then kills its child processes
	}()
	if err := run(ctx, *keep, *transcript, *ldflags); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, keep bool, transcript, ldflags string) error {
	log.SetLogger(logr.Discard()) // controller-runtime complains if it has no logger
	page, err := os.ReadFile(script)
	if err != nil {
		return fmt.Errorf("run it in the repository's root, as make demo does: %w", err)
	}
	base, err := os.Getwd()
	if err != nil {
		return err
	}
	release, err := claim(filepath.Join(base, folder))
	if err != nil {
		return err
	}
	defer release()
	bin, err := build(ctx, os.Stdout, base, filepath.Join(base, "bin"), ldflags)
	if err != nil {
		return err
	}
	t := newTour(os.Stdout, base, base, bin)
	t.colours, t.rewrites = colours(), transcript != ""
	defer t.stop()
	played, err := t.play(ctx, string(page))
	switch {
	case ctx.Err() != nil:
		return errors.New("interrupted; everything is ended and removed")
	case err != nil:
		return err
	case transcript != "":
		err = os.WriteFile(transcript, []byte(played), 0o644) //nolint:gosec // documentation
	}
	if err == nil && keep {
		err = t.keep(ctx)
	}
	fmt.Println("\nEnding everything and removing " + folder + ".")
	return err
}

func colours() bool {
	info, err := os.Stdout.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

const console = "clusterset console --hub-context hub --context xicheng,shijiazhuang,minhang"

// keep explains how to look at what is still running, and runs clusterset console, which prints its address, until the demo ends.
func (t *tour) keep(ctx context.Context) error {
	fmt.Printf(`
Everything stays up until you press Ctrl-C here. In another terminal, in this directory:

  export KUBECONFIG=%[1]s/kubeconfig       # contexts: hub, xicheng, shijiazhuang, minhang
  bin/clusterset status --context xicheng --hub-context hub
  bin/clusterset explain shop/web --context minhang
  bin/%[2]s
  kubectl --context minhang get serviceimports,globalservices,endpointslices -A
  kubectl --context hub get memberclusters,exportedservices -A

`, folder, console)
	for _, m := range t.members {
		fmt.Printf("  dig @127.0.0.1 -p %s web.shop.svc.global   # in %s\n", m.DNS.Port, m.Name)
	}
	fmt.Printf("\nThe logs are %[1]s/*.log and %[1]s/*/*.log. Ctrl-C ends everything and removes %[1]s.\n", folder)
	cmd := t.clusterset(ctx, append(strings.Fields(console)[1:], "--no-open"))
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	err := cmd.Run()
	if ended := (*exec.ExitError)(nil); ctx.Err() != nil || errors.As(err, &ended) {
		<-ctx.Done()
		return nil //nolint:nilerr // Ctrl-C ended it
	}
	return err
}
