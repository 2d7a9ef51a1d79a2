package cli

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/clusterset/clusterset/cli/preview"
)

// previewed is a change that has a command of its own.
type previewed struct {
	// use is the command's name and what it takes: CLUSTER, CLUSTER..., CLUSTER CIDR,CIDR... or NAMESPACE/NAME.
	use, short string
	long       string // default: short
	example    string // without the hub
	flags      func(*previewCommand, *pflag.FlagSet)
	change     func(p *previewCommand, args []string) preview.Change
}

func ofClusters(name, short string, change func([]string) preview.Change) previewed {
	return previewed{
		use: name + " CLUSTER...", short: short, example: name + " beijing",
		change: func(_ *previewCommand, args []string) preview.Change { return change(args) },
	}
}

var previews = []previewed{
	ofClusters("down", "Show what the loss of clusters would do", func(c []string) preview.Change { return preview.Change{Down: c} }),
	ofClusters("drain", "Show what draining clusters would do", func(c []string) preview.Change { return preview.Change{Drain: c} }),
	ofClusters("undrain", "Show what undraining clusters would do", func(c []string) preview.Change { return preview.Change{Undrain: c} }),
	ofClusters("leave", "Show what removing clusters from the hub would do", func(c []string) preview.Change { return preview.Change{Leave: c} }),
	{
		use: "unreachable CLUSTER...", short: "Show what a broken path to clusters would do",
		long:    "Shows what it would do if other clusters couldn't reach these, while the hub goes on hearing all: they would use their endpoints only if no others were left.",
		example: "unreachable beijing --from shanghai",
		flags: func(p *previewCommand, flags *pflag.FlagSet) {
			flags.StringSliceVar(&p.names, "from", nil, "`clusters` that can't reach them (default: all others)")
		},
		change: func(p *previewCommand, args []string) preview.Change {
			return preview.Change{Unreachable: &preview.Unreachable{Clusters: args, From: p.names}}
		},
	},
	{
		use: "export NAMESPACE/NAME --from CLUSTER", short: "Show what the export of a Service would do",
		long: "Show what the export of a Service would do, without doing it. " +
			"The Service and its endpoints are read in the cluster itself, by --kubeconfig and --context, or from --manifests.",
		example: "export shop/web --from beijing --hub-context hub --context beijing",
		flags: func(p *previewCommand, flags *pflag.FlagSet) {
			p.exporterFlag(flags)
			p.addLocalFlags(flags, "that exports it")
		},
		change: func(p *previewCommand, args []string) preview.Change {
			return preview.Change{Export: &preview.Export{Service: args[0], From: p.exporter}}
		},
	},
	{
		use: "unexport NAMESPACE/NAME --from CLUSTER", short: "Show what ending an export would do", example: "unexport shop/web --from beijing",
		flags: (*previewCommand).exporterFlag,
		change: func(p *previewCommand, args []string) preview.Change {
			return preview.Change{Unexport: &preview.Export{Service: args[0], From: p.exporter}}
		},
	},
	{
		use: "place CLUSTER", short: "Show what another place of a cluster would do",
		long:    "Shows what it would do to give a cluster's MemberCluster other zones or another region. Its nodes stay where they are.",
		example: "place tianjin --zone cn-north-2a --region cn-north-2",
		flags: func(p *previewCommand, flags *pflag.FlagSet) {
			flags.StringSliceVar(&p.zones, "zone", nil, "`zones` of the cluster, - for unknown (default: as now)")
			flags.StringVar(&p.region, "region", "", "`region` of the cluster, - for unknown (default: as now)")
		},
		change: func(p *previewCommand, args []string) preview.Change {
			return preview.Change{Place: &preview.Move{Cluster: args[0], Zones: p.zones, Region: p.region}}
		},
	},
	{
		use: "policy NAMESPACE/NAME", short: "Show what another policy of a service would do",
		long:    "Shows what it would do if all exports of a service stated a policy (clusterset.dev/prefer, boundary and min-ready on the ServiceExport).",
		example: "policy shop/web --boundary region --min-ready 3",
		flags: func(p *previewCommand, flags *pflag.FlagSet) {
			flags.StringSliceVar(&p.tiers, "prefer", nil, "`tiers`, the most preferred first: cluster, zone, region, or none (default: as now)")
			flags.StringVar(&p.policy.Boundary, "boundary", "", "`tier` that limits which endpoints are used: cluster, zone or region (default: as now)")
			flags.Int32Var(&p.policy.MinReady, "min-ready", 0, "`number` of ready endpoints that a tier needs (default: as now)")
		},
		change: func(p *previewCommand, args []string) preview.Change {
			p.policy.Service, p.policy.Prefer = args[0], strings.Join(p.tiers, " ")
			return preview.Change{Policy: &p.policy}
		},
	},
	{
		use: "communities CLUSTER", short: "Show what other communities of a cluster would do",
		long:    "Shows what it would do to give a cluster's MemberCluster other communities, instead of those that it names.",
		example: "communities tianjin --community payments --community edge-asia",
		flags: func(p *previewCommand, flags *pflag.FlagSet) {
			flags.StringSliceVar(&p.names, "community", nil, "a `community` of the cluster. Repeat it for several (required; a cluster that names none is in the community default)")
		},
		change: func(p *previewCommand, args []string) preview.Change {
			return preview.Change{Communities: &preview.Communities{Cluster: args[0], To: p.names}}
		},
	},
	{
		use: "export-to NAMESPACE/NAME", short: "Show what exporting a service to other clusters would do",
		long:    "Shows what it would do if all exports of a service were for these clusters and communities only (clusterset.dev/export-to on the ServiceExport).",
		example: "export-to shop/web --to shanghai --to edge-asia",
		flags: func(p *previewCommand, flags *pflag.FlagSet) {
			flags.StringSliceVar(&p.names, "to", nil, "a `cluster` or community that may import it, - for all. Repeat it for several (required)")
		},
		change: func(p *previewCommand, args []string) preview.Change {
			return preview.Change{ExportTo: &preview.ExportTo{Service: args[0], To: p.names}}
		},
	},
	{
		use: "network CLUSTER", short: "Show what another network of a cluster would do",
		long: "Shows what it would do to put a cluster into another network: clusters of other networks use only external addresses of its Services, in its\n" +
			"external networks, and it uses only theirs. The hub doesn't know the addresses of nodes and API servers, which aren't used either.",
		example: "network tianjin --to edge --external-cidrs 192.0.2.0/24",
		flags: func(p *previewCommand, flags *pflag.FlagSet) {
			flags.StringVar(&p.network.To, "to", "", "`network` of the cluster, - for that of clusters that name none (required)")
			flags.StringSliceVar(&p.network.ExternalCIDRs, "external-cidrs", nil, "`networks` of its external addresses, - for none (default: as now)")
		},
		change: func(p *previewCommand, args []string) preview.Change {
			p.network.Cluster = args[0]
			return preview.Change{Network: &p.network}
		},
	},
	{
		use: "cidrs CLUSTER CIDR,CIDR...", short: "Show what other cidrs of a cluster would do",
		long: "Shows what it would do to give a cluster's MemberCluster other cidrs, instead of those that it has; - for none. Other clusters use no address of it\n" +
			"outside of them.",
		example: "cidrs tianjin 10.2.0.0/16,10.97.0.0/16",
		change: func(_ *previewCommand, args []string) preview.Change {
			return preview.Change{Network: &preview.Network{Cluster: args[0], CIDRs: strings.Split(strings.Join(args[1:], ","), ",")}}
		},
	},
}

func (p *previewCommand) exporterFlag(flags *pflag.FlagSet) {
	flags.StringVar(&p.exporter, "from", "", "`cluster` that exports it (required)")
}

// command returns the change's command.
func (c previewed) command() *cobra.Command {
	var p previewCommand
	name, takes, _ := strings.Cut(c.use, " ")
	if c.long == "" {
		c.long = c.short + ", without doing it."
	}
	if !strings.Contains(c.example, "--hub-context") {
		c.example += " --hub-context hub"
	}
	cmd := p.command(&cobra.Command{
		Use: c.use, Short: c.short, Long: c.long + previewHelp, Example: "  clusterset preview " + c.example,
	}, func(args []string) ([]preview.Change, error) {
		switch {
		case takes == "CLUSTER..." && len(args) == 0:
			return nil, usagef("CLUSTER is missing: clusterset status lists the clusters")
		case takes == "CLUSTER CIDR,CIDR..." && len(args) < 2:
			return nil, usagef("want a cluster and its networks, such as beijing 10.1.0.0/16,10.96.0.0/16")
		case takes == "CLUSTER" && len(args) != 1:
			return nil, usagef("want one cluster, not %d; clusterset status lists them", len(args))
		case strings.HasPrefix(takes, "NAMESPACE/NAME"):
			if len(args) != 1 {
				return nil, usagef("want one service as NAMESPACE/NAME, not %d", len(args))
			}
			if _, err := preview.ParseService(args[0]); err != nil {
				return nil, usageError{err}
			}
			if strings.HasSuffix(name, "export") && p.exporter == "" {
				return nil, usagef("--from is required: the cluster that exports %s", args[0])
			}
		}
		return []preview.Change{c.change(&p, args)}, nil
	})
	if c.flags != nil {
		c.flags(&p, cmd.Flags())
	}
	if cmd.Flags().Lookup("from") == nil {
		p.placeFlag(cmd.Flags())
	}
	return cmd
}
