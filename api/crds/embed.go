// Package crds carries our CustomResourceDefinitions, as controller-gen makes them from the types of api/, to whoever has
// to install or test them: `clusterset join`, the chart's tests, the test clusters.
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

// All returns the files' contents, each one CustomResourceDefinition, in the order of their names.
func All() [][]byte {
	names, err := fs.Glob(FS, "*.yaml")
	if err != nil {
		panic(fmt.Sprintf("list embedded CRDs: %v", err)) // the pattern is a constant
	}
	all := make([][]byte, 0, len(names))
	for _, name := range names {
		content, err := FS.ReadFile(name)
		if err != nil {
			panic(fmt.Sprintf("read embedded CRD %s: %v", name, err)) // it was compiled in
		}
		all = append(all, content)
	}
	return all
}
