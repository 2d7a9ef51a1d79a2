package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/clusterset/clusterset/test/chart"
)

// The output is a folder for `kubectl apply -k`. The kustomization names the file beside it, which begins with its namespace.
func TestManifests(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "manifests")
	o := chart.Options{Release: "clusterset", Namespace: "names", KubeVersion: "v1.37.0"}
	if err := run(o, "../../../charts/clusterset", dir, "../../../charts/clusterset/examples/hub.yaml"); err != nil {
		t.Fatal(err)
	}
	var kustomization struct{ Resources []string }
	content, err := os.ReadFile(filepath.Join(dir, "kustomization.yaml"))
	if err != nil || yaml.Unmarshal(content, &kustomization) != nil || len(kustomization.Resources) != 1 {
		t.Fatalf("%s, %v", content, err)
	}
	content, err = os.ReadFile(filepath.Join(dir, kustomization.Resources[0]))
	if err != nil {
		t.Fatal(err)
	}
	if text := string(content); !strings.HasPrefix(text, "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: names\n---\n") || !strings.Contains(text, "kind: Deployment") {
		t.Error(text)
	}
}
