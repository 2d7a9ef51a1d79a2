package cli

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/clusterset/clusterset/cli/preview"
)

func previewClusters(verb, short string, change func([]string) preview.Change) *cobra.Command {
	return previewOne(&cobra.Command{
		Use: verb + " CLUSTER...", Short: short, Long: short + ", without doing it.",
		Example: "  clusterset preview " + verb + " beijing --hub-context hub",
	}, func(*previewCommand, *pflag.FlagSet) {}, func(_ *previewCommand, clusters []string) preview.Change { return change(clusters) })
}

func previewUnreachable() *cobra.Command {
	return previewOne(&cobra.Command{
		Use: "unreachable CLUSTER...", Short: "Show what a broken path to clusters would do",
		Long:    "Shows what it would do if other clusters couldn't reach these, while the hub goes on hearing all: they would use their endpoints only if no others were left.",
		Example: "  clusterset preview unreachable beijing --from shanghai --hub-context hub",
	}, func(p *previewCommand, flags *pflag.FlagSet) {
		flags.StringSliceVar(&p.names, "from", nil, "`clusters` that can't reach them (default: all others)")
	}, func(p *previewCommand, clusters []string) preview.Change {
		return preview.Change{Unreachable: &preview.Unreachable{Clusters: clusters, From: p.names}}
	})
}

func previewExport() *cobra.Command {
	const short = "Show what the export of a Service would do"
	return previewOne(&cobra.Command{
		Use: "export NAMESPACE/NAME --from CLUSTER", Short: short,
		Long:    short + ", without doing it. The Service and its endpoints are read in the cluster itself, by --kubeconfig and --context, or from --manifests.",
		Example: "  clusterset preview export shop/web --from beijing --hub-context hub --context beijing",
	}, func(p *previewCommand, flags *pflag.FlagSet) {
		p.exporterFlag(flags)
		p.addLocalFlags(flags, "that exports it")
	}, func(p *previewCommand, service []string) preview.Change {
		return preview.Change{Export: &preview.Export{Service: service[0], From: p.exporter}}
	})
}

func previewUnexport() *cobra.Command {
	const short = "Show what ending an export would do"
	return previewOne(&cobra.Command{
		Use: "unexport NAMESPACE/NAME --from CLUSTER", Short: short, Long: short + ", without doing it.",
		Example: "  clusterset preview unexport shop/web --from beijing --hub-context hub",
	}, (*previewCommand).exporterFlag, func(p *previewCommand, service []string) preview.Change {
		return preview.Change{Unexport: &preview.Export{Service: service[0], From: p.exporter}}
	})
}

func (p *previewCommand) exporterFlag(flags *pflag.FlagSet) {
	flags.StringVar(&p.exporter, "from", "", "`cluster` that exports it (required)")
}

func previewPlace() *cobra.Command {
	return previewOne(&cobra.Command{
		Use: "place CLUSTER", Short: "Show what another place of a cluster would do",
		Long:    "Shows what it would do to give a cluster's MemberCluster other zones or another region. Its nodes stay where they are.",
		Example: "  clusterset preview place tianjin --zone cn-north-2a --region cn-north-2 --hub-context hub",
	}, func(p *previewCommand, flags *pflag.FlagSet) {
		flags.StringSliceVar(&p.zones, "zone", nil, "`zones` of the cluster, - for unknown (default: as now)")
		flags.StringVar(&p.region, "region", "", "`region` of the cluster, - for unknown (default: as now)")
	}, func(p *previewCommand, args []string) preview.Change {
		return preview.Change{Place: &preview.Move{Cluster: args[0], Zones: p.zones, Region: p.region}}
	})
}

func previewCommunities() *cobra.Command {
	return previewOne(&cobra.Command{
		Use: "communities CLUSTER", Short: "Show what other communities of a cluster would do",
		Long:    "Shows what it would do to give a cluster's MemberCluster other communities, instead of those that it names.",
		Example: "  clusterset preview communities tianjin --community payments --community edge-asia --hub-context hub",
	}, func(p *previewCommand, flags *pflag.FlagSet) {
		flags.StringSliceVar(&p.names, "community", nil, "a `community` of the cluster. Repeat it for several (required; a cluster that names none is in the community default)")
	}, func(p *previewCommand, args []string) preview.Change {
		return preview.Change{Communities: &preview.Communities{Cluster: args[0], To: p.names}}
	})
}

func previewNetwork() *cobra.Command {
	return previewOne(&cobra.Command{
		Use: "network CLUSTER", Short: "Show what another network of a cluster would do",
		Long: "Shows what it would do to put a cluster into another network: clusters of other networks use only external addresses of its Services, in its\n" +
			"external networks, and it uses only theirs. The hub doesn't know the addresses of nodes and API servers, which aren't used either.",
		Example: "  clusterset preview network tianjin --to edge --external-cidrs 192.0.2.0/24 --hub-context hub",
	}, func(p *previewCommand, flags *pflag.FlagSet) {
		flags.StringVar(&p.network.To, "to", "", "`network` of the cluster, - for that of clusters that name none (required)")
		flags.StringSliceVar(&p.network.ExternalCIDRs, "external-cidrs", nil, "`networks` of its external addresses, - for none (default: as now)")
	}, func(p *previewCommand, args []string) preview.Change {
		p.network.Cluster = args[0]
		return preview.Change{Network: &p.network}
	})
}

func previewExportTo() *cobra.Command {
	return previewOne(&cobra.Command{
		Use: "export-to NAMESPACE/NAME", Short: "Show what exporting a service to other clusters would do",
		Long:    "Shows what it would do if all exports of a service were for these clusters and communities only (clusterset.dev/export-to on the ServiceExport).",
		Example: "  clusterset preview export-to shop/web --to shanghai --to edge-asia --hub-context hub",
	}, func(p *previewCommand, flags *pflag.FlagSet) {
		flags.StringSliceVar(&p.names, "to", nil, "a `cluster` or community that may import it, - for all. Repeat it for several (required)")
	}, func(p *previewCommand, args []string) preview.Change {
		return preview.Change{ExportTo: &preview.ExportTo{Service: args[0], To: p.names}}
	})
}

func previewPolicy() *cobra.Command {
	return previewOne(&cobra.Command{
		Use: "policy NAMESPACE/NAME", Short: "Show what another policy of a service would do",
		Long:    "Shows what it would do if all exports of a service stated a policy (clusterset.dev/prefer, boundary and min-ready on the ServiceExport).",
		Example: "  clusterset preview policy shop/web --boundary region --min-ready 3 --hub-context hub",
	}, func(p *previewCommand, flags *pflag.FlagSet) {
		flags.StringSliceVar(&p.tiers, "prefer", nil, "`tiers`, the most preferred first: cluster, zone, region, or none (default: as now)")
		flags.StringVar(&p.policy.Boundary, "boundary", "", "`tier` that limits which endpoints are used: cluster, zone or region (default: as now)")
		flags.Int32Var(&p.policy.MinReady, "min-ready", 0, "`number` of ready endpoints that a tier needs (default: as now)")
	}, func(p *previewCommand, args []string) preview.Change {
		p.policy.Service, p.policy.Prefer = args[0], strings.Join(p.tiers, " ")
		return preview.Change{Policy: &p.policy}
	})
}

// previewOne completes a command for one change of the clusters or the service that its usage names.
func previewOne(cmd *cobra.Command, flags func(*previewCommand, *pflag.FlagSet), change func(p *previewCommand, names []string) preview.Change) *cobra.Command {
	var p previewCommand
	cmd.Long += previewHelp
	cmd = p.command(cmd, func(args []string) ([]preview.Change, error) {
		switch {
		case strings.Contains(cmd.Use, "NAMESPACE/NAME"):
			if service, err := oneService(args); err != nil {
				return nil, err
			} else if strings.Contains(cmd.Use, "--from") && p.exporter == "" {
				return nil, usagef("--from is required: the cluster that exports %s", service)
			}
		case strings.HasSuffix(cmd.Use, "...") && len(args) == 0:
			return nil, usagef("CLUSTER is missing: clusterset status lists the clusters")
		case strings.HasSuffix(cmd.Use, " CLUSTER") && len(args) != 1:
			return nil, usagef("want one cluster, not %d; clusterset status lists them", len(args))
		}
		return []preview.Change{change(&p, args)}, nil
	})
	flags(&p, cmd.Flags())
	if cmd.Flags().Lookup("from") == nil {
		p.placeFlag(cmd.Flags())
	}
	return cmd
}

func oneService(args []string) (string, error) {
	if len(args) != 1 {
		return "", usagef("want one service as NAMESPACE/NAME, not %d", len(args))
	}
	if _, err := preview.ParseService(args[0]); err != nil {
		return "", usageError{err}
	}
	return args[0], nil
}
