package main

import (
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

// asPlugin has the help speak of `kubectl clusterset` where the program was started as kubectl's plugin, by the name that
// kubectl finds plugins by.
func asPlugin(root *cobra.Command, started string) {
	if name := strings.TrimSuffix(filepath.Base(started), ".exe"); name != "kubectl-clusterset" {
		return
	}
	const name = "kubectl clusterset"
	root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: name}
	for _, cmd := range append(root.Commands(), root) {
		cmd.Example = strings.ReplaceAll(cmd.Example, "clusterset ", name+" ")
		for _, child := range root.Commands() {
			cmd.Long = strings.ReplaceAll(cmd.Long, "clusterset "+child.Name(), name+" "+child.Name())
		}
	}
}
