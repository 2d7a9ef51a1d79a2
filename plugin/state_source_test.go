package clusterset

import (
	"context"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/clusterset/clusterset/internal/index"
	"github.com/clusterset/clusterset/internal/statefile"
)

// idle is a feed without events. The test sets the source's objects itself.
type idle struct{}

func (idle) name() string { return "kubernetes" }

func (idle) run(ctx context.Context, _ *source) { <-ctx.Done() }

var thisCluster = statefile.Cluster{UID: "here"}

// keptSource returns a source with one index and a snapshot file.
func keptSource(t *testing.T, path string, maxAge time.Duration, namespaces ...string) *source {
	t.Helper()
	s := newSource(idle{})
	x := index.New(index.Options{LongestZone: len("clusterset.local."), Namespaces: namespaces, Serials: &serials})
	s.indexes = []*index.Index{x}
	s.keeper = newKeeper(snapshotOptions{path, maxAge}, s, func() statefile.Cluster { return thisCluster })
	s.keeper.indexes = s.indexes
	return s
}

// pass advances the fake clock of a synctest bubble.
func pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // the clock is not the real one
}

// syncAll replaces all objects of the source.
func syncAll(s *source, objects ...index.Object) {
	for _, k := range index.Kinds {
		s.reachable(k, true)
		s.replace(k, slices.DeleteFunc(slices.Clone(objects), func(o index.Object) bool { return o.Kind() != k }))
	}
}

func numberedVIP(n int) *index.ServiceImport {
	return vip("web", netip.AddrFrom4([4]byte{10, 0, byte(n >> 8), byte(n)}).String())
}

func readState(t *testing.T, path string) *statefile.State {
	t.Helper()
	s, _, err := statefile.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
