// Command generate copies the CustomResourceDefinitions into the chart, because Helm reads only files in the chart's folder, and
// writes the chart's roles for the end-to-end tests. Run it with `go generate` in test/chart.
package main

import (
	"log"
	"os"
	"path/filepath"

	"github.com/clusterset/clusterset/test/chart"
)

func main() {
	chart.Quiet()
	dir := filepath.Join("..", "..", "charts", "clusterset")
	if err := write(filepath.Join(dir, "files", "crds"), chart.CRDs()); err != nil {
		log.Fatal(err)
	}
	rights, err := chart.Rights(dir)
	if err != nil {
		log.Fatal(err)
	}
	if err := write(filepath.Join("..", "fleet", "rbac"), rights); err != nil {
		log.Fatal(err)
	}
}

// write replaces the content of a folder with files.
func write(dir string, files map[string][]byte) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}
