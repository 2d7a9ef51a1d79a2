// Command clusterset is the control plane of a set of clusters: the agent of each member, the hub's watch over their
// heartbeats, and what a person types to join and leave.
//
// This package turns flags, environment and a file into the options of the packages that do the work, and nothing else.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	tuneMemory()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, commandLine(os.Args), os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
