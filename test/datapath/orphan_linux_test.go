package datapath

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/clusterset/clusterset/test/fleet"
	"github.com/clusterset/clusterset/test/kube"
)

// orphanEnv makes the test binary create namespaces with a process in them and wait until it is killed.
const orphanEnv = "CLUSTERSET_TEST_NAMESPACES"

// leaveOrphans creates the namespaces and prints their names.
func leaveOrphans(dir string) error {
	network, err := newNetwork()
	if err != nil {
		return err
	}
	n, err := newNamespace()
	if err != nil {
		return err
	}
	if err := network.plug(n, 1, 1); err != nil {
		return err
	}
	sleep := fleet.Program{
		Name: "sleep", Path: "nsenter", Log: filepath.Join(dir, "log"), Up: func(context.Context) error { return nil },
		Args: func() ([]string, error) { return []string{"--net=" + n.path(), "--", "sleep", "600"}, nil },
	}
	if err := sleep.Start(context.Background()); err != nil {
		return err
	}
	for _, ns := range []*namespace{network.router, n} {
		name, err := os.Readlink(ns.path())
		if err != nil {
			return err
		}
		fmt.Println(name)
	}
	fmt.Println("ready")
	select {}
}

func TestAKilledRunLeavesNoNamespaces(t *testing.T) {
	needed(t)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), orphanEnv+"="+t.TempDir())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var names []string
	lines := bufio.NewScanner(out)
	for lines.Scan() && lines.Text() != "ready" {
		names = append(names, lines.Text())
	}
	before := inUse(names)
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	_, _ = io.Copy(io.Discard, out)
	_ = cmd.Wait()
	if len(names) != 2 || before == nil {
		t.Fatalf("it made the namespaces %q, of which none has a process", names)
	}
	kube.Eventually(t, func() error { return inUse(names) })
}

// inUse returns an error if a process runs in one of the namespaces or holds it open.
func inUse(names []string) error {
	found, err := filepath.Glob("/proc/[0-9]*/ns/net")
	if err != nil {
		return err
	}
	open, err := filepath.Glob("/proc/[0-9]*/fd/*")
	if err != nil {
		return err
	}
	for _, path := range append(found, open...) {
		target, err := os.Readlink(path)
		if err != nil {
			continue // the process or its descriptor has just gone
		}
		if slices.Contains(names, target) {
			return fmt.Errorf("%s is %s", path, target)
		}
	}
	return nil
}
