package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/clusterset/clusterset/test/fleet"
	"github.com/clusterset/clusterset/test/kube"
)

// claim locks a folder for this process and empties it. The function it returns removes it.
func claim(dir string) (release func(), err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("%s is in use by another demo; end that one first (%w)", dir, err)
	}
	left, err := os.ReadDir(dir)
	for _, entry := range left { // left by a demo that was killed
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, entry.Name())))
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return func() {
		_ = os.RemoveAll(dir)
		_ = f.Close()
	}, nil
}

// build compiles all programs that the demo runs, unless they are up to date, and reports its progress.
func build(ctx context.Context, w io.Writer, root, dir, ldflags string) (bin fleet.Binaries, err error) {
	err = during(w, "compiling clusterset and coredns", func() error {
		bin, err = fleet.Build(ctx, root, dir, ldflags)
		return err
	})
	if err != nil {
		return bin, err
	}
	return bin, during(w, "compiling etcd and kube-apiserver", func() error {
		_, err := kube.Build(ctx, kube.WithProgress(w))
		return err
	})
}

// during calls f and reports every 15 seconds that it is still running.
func during(w io.Writer, what string, f func() error) error {
	began := time.Now()
	done := make(chan error, 1)
	go func() { done <- f() }()
	tick := time.NewTicker(15 * time.Second)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-tick.C:
			fmt.Fprintf(w, "  %s: %s so far\n", what, time.Since(began).Round(time.Second))
		}
	}
}
