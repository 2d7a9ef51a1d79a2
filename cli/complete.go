package cli

import (
	"maps"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"
)

// completeContexts completes the contexts of kubeconfigs in all commands.
func completeContexts(cmd *cobra.Command) {
	for _, f := range []struct{ context, file string }{{"context", "kubeconfig"}, {"hub-context", "hub-kubeconfig"}} {
		if cmd.Flags().Lookup(f.context) == nil {
			continue
		}
		_ = cmd.RegisterFlagCompletionFunc(f.context, func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			rules := clientcmd.NewDefaultClientConfigLoadingRules()
			rules.ExplicitPath, _ = cmd.Flags().GetString(f.file)
			known, err := rules.Load()
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return slices.Sorted(maps.Keys(known.Contexts)), cobra.ShellCompDirectiveNoFileComp
		})
	}
	for _, child := range cmd.Commands() {
		completeContexts(child)
	}
}
