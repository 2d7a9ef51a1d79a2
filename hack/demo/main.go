// Command demo runs a hub and three clusters on this machine, with real control planes, agents and DNS servers. It shows what users see
// while services are exported, and while a cluster is drained and later dies. `make demo` runs it.
//
// Every answer and all output that it shows comes from the real processes and is compared with what the text promises: if it differs, the
// demo fails. docs/demo.md is its transcript.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// options are the command line's flags.
type options struct {
	keep       bool
	transcript string
	ldflags    string
}

func main() {
	var o options
	flag.BoolVar(&o.keep, "keep", false, "leave everything up at the end, until interrupted")
	flag.StringVar(&o.transcript, "transcript", "", "write what is shown to this Markdown `file` as well")
	flag.StringVar(&o.ldflags, "ldflags", "-s -w", "linker `flags` for our two programs")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	go func() {
		<-ctx.Done()
		stop() // a second Ctrl-C ends the demo at once, and the kernel then kills its child processes
	}()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) (err error) {
	log.SetLogger(logr.Discard()) // controller-runtime complains if it has no logger
	if _, err := os.Stat("examples/demo"); err != nil {
		return errors.New("run it in the repository's root, as make demo does")
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
	p := &page{terminal: os.Stdout, colours: colours()}
	bin, err := build(ctx, os.Stdout, base, filepath.Join(base, "bin"), o.ldflags)
	if err != nil {
		return err
	}
	t := newTour(ctx, p, base, base, bin)
	defer t.stop()
	if err := t.tell(); err != nil {
		if ctx.Err() != nil {
			return errors.New("interrupted; everything is ended and removed")
		}
		return err
	}
	if o.transcript != "" {
		if err := os.WriteFile(o.transcript, []byte(t.document()), 0o644); err != nil { //nolint:gosec // documentation
			return err
		}
	}
	if o.keep {
		fmt.Fprint(os.Stdout, t.keepsake())
		if err := t.console(os.Stdout); err != nil && ctx.Err() == nil {
			return err
		}
		<-ctx.Done()
	}
	fmt.Fprintln(os.Stdout, "\nEnding everything and removing "+folder+".")
	return nil
}

func colours() bool {
	info, err := os.Stdout.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
