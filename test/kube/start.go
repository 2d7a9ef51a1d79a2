package kube

import (
	"os"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"
)

// Start launches a control plane that ends with the test. When the test fails, its output includes the last lines of the control plane's logs.
// With -short the test is skipped.
func Start(t testing.TB, opts ...Option) *ControlPlane {
	t.Helper()
	return StartAll(t, opts)[0]
}

// StartAll is [Start] for several control planes, one for each list of options. They start at the same time, because a launch mostly waits.
func StartAll(t testing.TB, each ...[]Option) []*ControlPlane {
	t.Helper()
	if testing.Short() {
		t.Skip("starts etcd and kube-apiserver")
	}
	// Progress bypasses t.Log, which shows nothing before the test has ended.
	all := make([]*ControlPlane, len(each))
	var group errgroup.Group
	for i, opts := range each {
		dir := t.TempDir()
		group.Go(func() (err error) {
			all[i], err = Launch(t.Context(), dir, append([]Option{WithProgress(os.Stderr)}, opts...)...)
			return err
		})
	}
	err := group.Wait()
	t.Cleanup(func() {
		var group sync.WaitGroup
		for _, c := range all {
			if c == nil {
				continue
			}
			if t.Failed() {
				// Read the logs before Stop, whose own lines would otherwise fill the end.
				for _, tail := range c.logs() {
					t.Log(tail)
				}
			}
			group.Go(c.Stop)
		}
		group.Wait()
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
