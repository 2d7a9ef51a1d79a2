package cli

import (
	"context"
	"fmt"
	"io"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/clusterset/clusterset/cli/objects"
	"github.com/clusterset/clusterset/cli/versions"
	"github.com/clusterset/clusterset/internal/version"
)

// versionCommand is `clusterset version`.
type versionCommand struct {
	clusters
	output
}

func newVersion() *cobra.Command {
	var v versionCommand
	cmd := configured(&cobra.Command{
		Use:   "version",
		Short: "Print the version, and those of the hub, the agents and the DNS servers",
		Long: `Prints the version of this program. With --context, --kubeconfig, --hub-context or --hub-kubeconfig it also prints those of the
agents, as they report them, and of the hub's and the DNS servers' pods in that cluster, by their images' tags; and says which of them don't go
together: members, hub and DNS servers may differ by one minor version.

clusterset --version prints the version alone.

Exit codes: 0 success; 1 versions that don't go together, or failure; 2 usage error.`,
		Example: `  clusterset version
  clusterset version --hub-context hub --context beijing`,
		RunE: func(cmd *cobra.Command, _ []string) error { return v.run(cmd.Context(), cmd.OutOrStdout()) },
	})
	v.clusters.addFlags(cmd.Flags())
	v.addFlag(cmd, "table", "json", "yaml")
	return cmd
}

func (v *versionCommand) run(ctx context.Context, w io.Writer) error {
	set, err := v.read(ctx)
	if err != nil {
		return err
	}
	list := versions.Compare(set)
	err = v.write(w, list, func() string {
		if len(set) == 1 {
			return programVersion()
		}
		return versions.Render(list, colours(w))
	})
	if skewed := versions.Skewed(list); err == nil && skewed > 0 {
		return problemsError(fmt.Sprintf("%d of %d don't go with the others, shown above", skewed, len(list)))
	}
	return err
}

func (v *versionCommand) read(ctx context.Context) ([]versions.Part, error) {
	set := []versions.Part{{What: versions.CLI, Version: version.String()}}
	local, hub, err := v.given(false)
	if err != nil {
		return nil, err
	}
	for _, c := range []*objects.Cluster{hub, local} {
		if c == nil {
			continue
		}
		name := ""
		if c == local {
			name = c.Name(ctx)
		}
		parts, err := versions.In(ctx, c, name)
		if err != nil {
			return nil, err
		}
		set = append(set, parts...)
	}
	return set, nil
}

func programVersion() string {
	return fmt.Sprintf("clusterset %s (%s, %s/%s)\n", version.String(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
