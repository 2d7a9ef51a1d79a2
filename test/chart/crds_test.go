package chart

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/clusterset/clusterset/api/crds"
)

func TestCRDsAreFresh(t *testing.T) {
	if len(CRDs()) != len(crds.All())+2 {
		t.Errorf("the chart carries %v of %d CRDs of ours", slices.Sorted(maps.Keys(CRDs())), len(crds.All()))
	}
	fresh(t, filepath.Join(chartDir, "files", "crds"), CRDs())
}

// Whatever the values, each kind of ours that a component may access in its cluster is installed with it, unless no kinds are.
func TestEveryKindIsInstalled(t *testing.T) {
	for _, e := range examples(t) {
		all := objects(t, render(t, e.Options).Manifests)
		installed := map[string]bool{}
		for _, crd := range only(all, "CustomResourceDefinition") {
			installed[crd.GetName()] = true
		}
		if len(installed) == 0 {
			continue
		}
		needed := map[string]bool{}
		for _, component := range components {
			for grant := range grantsOf(t, all, component) {
				needed[strings.Fields(grant)[2]] = true
			}
		}
		for file := range CRDs() {
			group, resource, _ := strings.Cut(strings.TrimSuffix(file, ".yaml"), "_")
			if group == "multicluster.x-k8s.io" && strings.Contains(e.Values, "mcs: false") {
				continue // another implementation's are there
			}
			if name := resource + "." + group; needed[group+"/"+resource] && !installed[name] {
				t.Errorf("%s: a component may access %s, which isn't installed", e.name, name)
			}
		}
	}
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
