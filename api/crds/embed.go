// Package crds embeds our CustomResourceDefinitions, which controller-gen generates from the types of api/, for everything that
// installs or tests them: `clusterset join`, the chart's tests, the test clusters.
package crds

import (
	"embed"
	"fmt"
	"io/fs"
)

// FS holds one YAML file per kind, named <group>_<plural>.yaml.
//
//go:embed *.yaml
var FS embed.FS

// All returns the contents of the files, one CustomResourceDefinition each, sorted by file name.
func All() [][]byte {
	names, err := fs.Glob(FS, "*.yaml")
	if err != nil {
		panic(fmt.Sprintf("list embedded CRDs: %v", err)) // the pattern is a constant
	}
	all := make([][]byte, 0, len(names))
	for _, name := range names {
		content, err := FS.ReadFile(name)
		if err != nil {
			panic(fmt.Sprintf("read embedded CRD %s: %v", name, err)) // it is embedded
		}
		all = append(all, content)
	}
	return all
}
