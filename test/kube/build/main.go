// Command build compiles the control plane that the tests run against. Run it
// before the tests: the programs are then cached, and it shows the progress of
// a build that takes minutes.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/clusterset/clusterset/test/kube"
)

func main() {
	if err := build(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func build() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	b, err := kube.Build(ctx, kube.WithControllerManager(), kube.WithProgress(os.Stderr))
	if err != nil {
		return err
	}
	for _, path := range []string{b.Etcd, b.APIServer, b.ControllerManager} {
		fmt.Println(path)
	}
	return nil
}
