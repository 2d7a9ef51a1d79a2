package chart

import (
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/clusterset/clusterset/api/crds"
)

func TestCRDsAreFresh(t *testing.T) {
	if len(CRDs()) != len(crds.All())+2 {
		t.Errorf("the chart carries %v of %d CRDs of ours", slices.Sorted(maps.Keys(CRDs())), len(crds.All()))
	}
	fresh(t, filepath.Join(chartDir, "files", "crds"), CRDs())
}

// fresh fails the test unless a folder contains exactly these files.
func fresh(t *testing.T, dir string, files map[string][]byte) {
	t.Helper()
	there, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(there) != len(files) {
		t.Errorf("%s has %v, %v", dir, there, err)
	}
	for name, content := range files {
		if path := filepath.Join(dir, name); read(t, path) != string(content) {
			t.Errorf("%s is old: run make generate", path)
		}
	}
}
