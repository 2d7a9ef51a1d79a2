package cli

import (
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

// asPlugin makes the help say `kubectl clusterset` if the program was started as kubectl's plugin, that is by the plugin's file
// name.
func asPlugin(root *cobra.Command, started string) {
	if programName(started) != "kubectl-clusterset" {
		return
	}
	const name = "kubectl clusterset"
	root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: name}
	all := []*cobra.Command{root}
	for i := 0; i < len(all); i++ {
		cmd := all[i]
		all = append(all, cmd.Commands()...)
		cmd.Example = strings.ReplaceAll(cmd.Example, "clusterset ", name+" ")
		for _, child := range root.Commands() {
			cmd.Long = strings.ReplaceAll(cmd.Long, "clusterset "+child.Name(), name+" "+child.Name())
		}
	}
}

// commandLine returns the arguments of a program that was started with args, its own name first. To complete a command line of
// `kubectl clusterset`, kubectl runs a program kubectl_complete-clusterset with it
// (https://kubernetes.io/docs/tasks/extend-kubectl/kubectl-plugins/), which can be a link to this one.
func commandLine(args []string) []string {
	if len(args) > 0 && programName(args[0]) == "kubectl_complete-clusterset" {
		return append([]string{cobra.ShellCompRequestCmd}, args[1:]...)
	}
	return args[1:]
}

func programName(started string) string {
	return strings.TrimSuffix(filepath.Base(started), ".exe")
}
