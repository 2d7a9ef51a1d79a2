// Command generate copies what the chart needs from elsewhere in the repository into it, because Helm reads nothing outside
// of a chart's folder: the CustomResourceDefinitions. Run it with `go generate` in test/chart.
package main

import (
	"log"
	"os"
	"path/filepath"

	"github.com/clusterset/clusterset/test/chart"
)

func main() {
	dir := filepath.Join("..", "..", "charts", "clusterset", "files", "crds")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		log.Fatal(err)
	}
	for name, content := range chart.CRDs() {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			log.Fatal(err)
		}
	}
}
