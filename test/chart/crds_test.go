package chart

import (
	"path/filepath"
	"testing"

	mcscrd "sigs.k8s.io/mcs-api/config/crd"

	"github.com/clusterset/clusterset/api/crds"
	"github.com/clusterset/clusterset/test/page"
)

// Helm reads only files in the chart's folder, so this has copies. UPDATE=1 writes them.
func TestCRDsAreFresh(t *testing.T) {
	fresh(t, filepath.Join(chartDir, "files", "crds"), shippedCRDs(t))
}

// shippedCRDs returns the CustomResourceDefinitions of the chart, by the names of their files: those of clusterset, and those of the Multi-Cluster
// Services API from its module.
func shippedCRDs(t *testing.T) map[string][]byte {
	t.Helper()
	all := map[string][]byte{
		"multicluster.x-k8s.io_serviceexports.yaml": mcscrd.ServiceExportCRD,
		"multicluster.x-k8s.io_serviceimports.yaml": mcscrd.ServiceImportCRD,
	}
	files, err := crds.FS.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if all[file.Name()], err = crds.FS.ReadFile(file.Name()); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// fresh fails the test unless a folder contains exactly these files.
func fresh(t *testing.T, dir string, files map[string][]byte) {
	t.Helper()
	for name, content := range files {
		page.Fresh(t, filepath.Join(dir, name), string(content))
	}
	if there, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(there) != len(files) {
		t.Errorf("%s has %v, %v", dir, there, err)
	}
}
