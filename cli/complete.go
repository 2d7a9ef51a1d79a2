package cli

import (
	"context"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/tools/clientcmd"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/objects"
	"github.com/clusterset/clusterset/cli/place"
)

// completionTime is how long a shell waits for words. A cluster that doesn't answer by then has none.
const completionTime = 3 * time.Second

// wordsOf finds the words for what the help calls the value of a flag, or in capitals an argument.
var wordsOf = map[string]func(context.Context, *cobra.Command) []string{
	"cluster":        clusterWords,
	"clusters":       clusterWords,
	"community":      saidBy(func(mc *clustersetv1alpha1.MemberCluster) []string { return mc.Spec.Communities }),
	"network":        saidBy(func(mc *clustersetv1alpha1.MemberCluster) []string { return []string{mc.Spec.Network} }),
	"place":          placeWords,
	"services":       serviceWords,
	"CLUSTER":        clusterWords,
	"CLUSTER...":     clusterWords,
	"NAME":           serviceWords,
	"NAMESPACE/NAME": serviceWords,
}

// completeWords completes the flags and arguments of all commands.
func completeWords(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		what, _ := pflag.UnquoteUsage(f)
		words := wordsOf[what]
		if what == "context" || what == "contexts" {
			words = contextsOf(strings.TrimSuffix(f.Name, "context") + "kubeconfig")
		}
		if words != nil {
			_ = cmd.RegisterFlagCompletionFunc(f.Name, completed(words))
		}
	})
	if use := strings.Fields(cmd.Use); len(use) > 1 {
		if words := wordsOf[strings.Trim(use[1], "[]")]; words != nil {
			cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, start string) ([]cobra.Completion, cobra.ShellCompDirective) {
				if len(args) > 0 && !strings.HasSuffix(use[1], "...") {
					return nil, cobra.ShellCompDirectiveNoFileComp
				}
				all, directive := completed(words)(cmd, nil, start)
				return slices.DeleteFunc(all, func(word string) bool { return slices.Contains(args, word) }), directive
			}
		}
	}
	for _, child := range cmd.Commands() {
		completeWords(child)
	}
}

// completed offers words, also after a comma. Errors are no words: a shell has no place for them.
func completed(words func(context.Context, *cobra.Command) []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, start string) ([]cobra.Completion, cobra.ShellCompDirective) {
		const none = cobra.ShellCompDirectiveNoFileComp
		if fillIn(cmd.Flags(), os.LookupEnv) != nil {
			return nil, none
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
		defer cancel()
		found := make(chan []string, 1)
		go func() { found <- words(ctx, cmd) }() // what doesn't heed the context ends with the process
		select {
		case <-ctx.Done():
			return nil, none
		case all := <-found:
			before := start[:strings.LastIndex(start, ",")+1]
			slices.Sort(all)
			all = slices.Compact(all)
			for i := range all {
				all[i] = before + all[i]
			}
			return all, none
		}
	}
}

// contextsOf returns the contexts of the kubeconfig that a flag names.
func contextsOf(file string) func(context.Context, *cobra.Command) []string {
	return func(_ context.Context, cmd *cobra.Command) []string {
		rules := clientcmd.NewDefaultClientConfigLoadingRules()
		rules.ExplicitPath, _ = cmd.Flags().GetString(file)
		known, err := rules.Load()
		if err != nil {
			return nil
		}
		return slices.Collect(maps.Keys(known.Contexts))
	}
}

// source returns the hub if it is given, else the local cluster, for a command that reads it. Without either it returns nil.
func source(cmd *cobra.Command) (from *objects.Cluster, isHub bool) {
	value := func(flag string) string {
		f := cmd.Flags().Lookup(flag)
		if f == nil || f.Value.Type() != "string" {
			return ""
		}
		return f.Value.String()
	}
	c := clusters{
		kubeconfig: value("kubeconfig"), context: value("context"), timeout: completionTime,
		hubKubeconfig: value("hub-kubeconfig"), hubContext: value("hub-context"),
	}
	from, err := c.openHub()
	isHub = from != nil
	if !isHub && err == nil && value("manifests") == "" && cmd.Flags().Lookup("context") != nil {
		from, err = c.openLocal()
	}
	if err != nil {
		return nil, false
	}
	return from, isHub
}

// membersFor returns the clusters of the set.
func membersFor(ctx context.Context, cmd *cobra.Command) []clustersetv1alpha1.MemberCluster {
	from, _ := source(cmd)
	if from == nil {
		return nil
	}
	members, err := from.MemberClusters(ctx)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(members, func(mc clustersetv1alpha1.MemberCluster) bool { return mc.Left() })
}

// clusterWords returns the clusters that the command is for: drain has no use for one that is drained.
func clusterWords(ctx context.Context, cmd *cobra.Command) []string {
	if f := cmd.Flags().Lookup("rejoin"); f != nil && f.Value.String() == "false" {
		return nil // a new cluster has a new name
	}
	return memberNames(slices.DeleteFunc(membersFor(ctx, cmd), func(mc clustersetv1alpha1.MemberCluster) bool {
		return cmd.Name() == "drain" && mc.Spec.Drain || cmd.Name() == "undrain" && !mc.Spec.Drain
	}))
}

// saidBy returns words that the MemberClusters have.
func saidBy(words func(*clustersetv1alpha1.MemberCluster) []string) func(context.Context, *cobra.Command) []string {
	return func(ctx context.Context, cmd *cobra.Command) (all []string) {
		members := membersFor(ctx, cmd)
		for i := range members {
			all = append(all, words(&members[i])...)
		}
		return slices.DeleteFunc(all, func(word string) bool { return word == "" })
	}
}

// placeWords returns the clusters, and each with its zones and its region.
func placeWords(ctx context.Context, cmd *cobra.Command) (words []string) {
	for _, mc := range membersFor(ctx, cmd) {
		words = append(words, mc.Name)
		for _, zone := range mc.AllZones() {
			words = append(words, place.Place{Cluster: mc.Name, Zone: zone, Region: mc.Spec.Region}.String())
		}
	}
	return words
}

// serviceWords returns the services of the set: those that the hub has records of, or that the cluster has imported.
func serviceWords(ctx context.Context, cmd *cobra.Command) (words []string) {
	from, isHub := source(cmd)
	switch {
	case from == nil:
	case isHub:
		var all clustersetv1alpha1.ExportedServiceList
		if from.List(ctx, &all) != nil {
			return nil
		}
		for i := range all.Items {
			if s := &all.Items[i]; s.Exports() {
				words = append(words, s.Spec.ServiceNamespace+"/"+s.Spec.ServiceName)
			}
		}
	default:
		imports, err := from.ServiceImports(ctx)
		if err != nil {
			return nil
		}
		for i := range imports {
			words = append(words, imports[i].Namespace+"/"+imports[i].Name)
		}
	}
	return words
}

// namespaceWords returns the namespaces that have services of the set.
func namespaceWords(ctx context.Context, cmd *cobra.Command) []string {
	words := serviceWords(ctx, cmd)
	for i := range words {
		words[i], _, _ = strings.Cut(words[i], "/")
	}
	return words
}
