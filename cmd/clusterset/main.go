// Command clusterset is the control plane of a cluster set: the agent of each member, the hub process that watches their
// heartbeats, and the commands for people.
//
// This package only turns flags, the environment and files into the options of the packages that do the work.
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
