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
	dir := filepath.Join(chartDir, "files", "crds")
	there, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(there) != len(CRDs()) {
		t.Errorf("%s has %v, %v", dir, there, err)
	}
	for name, content := range CRDs() {
		if read(t, filepath.Join(dir, name)) != string(content) {
			t.Errorf("%s in the chart is old: run go generate in test/chart", name)
		}
	}
}
