package clusterset

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/clusterset/clusterset/internal/index"
	"github.com/clusterset/clusterset/test/kube"
)

// A54: a directory that can't be listed may hold anything, so no name is denied before it was listed once.
func TestAnUnlistedDirectoryDeniesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "missing")
	s := newSource(&manifestsFeed{dir: dir})
	s.label, s.corefile = "unlisted", &sources{}
	x := index.New(index.Options{})
	s.indexes = append(s.indexes, x)
	s.start()
	t.Cleanup(s.endMetrics)
	t.Cleanup(s.close)
	kube.Eventually(t, func() error {
		if testutil.ToFloat64(errorsTotal.WithLabelValues(s.label, kindFile)) < 2 {
			return errors.New("the second attempt hasn't failed yet")
		}
		return nil
	})
	if x.Snapshot() != nil {
		t.Error("answers without having read anything")
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	<-s.synced
	if x.Snapshot() == nil {
		t.Error("doesn't answer although the directory was listed")
	}
}
