package cli

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/clusterset/clusterset/cli/preview"
	"github.com/clusterset/clusterset/internal/topology"
)

// previewed is a change that has a command of its own.
type previewed struct {
	// use is the command's name and what it takes: CLUSTER, CLUSTER... or NAMESPACE/NAME, and a flag that it requires.
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
			flags.StringSliceVar(&p.cutOff, "from", nil, "`clusters` that can't reach them (default: all others)")
		},
		change: func(p *previewCommand, args []string) preview.Change {
			return preview.Change{Unreachable: &preview.Unreachable{Clusters: args, From: p.cutOff}}
		},
	},
	{
		use: "export NAMESPACE/NAME --from CLUSTER", short: "Show what the export of a Service would do",
		long: "Show what the export of a Service would do, without doing it. " +
			"The Service and its endpoints are read in the cluster itself, by --kubeconfig and --context, or from --manifests.\n" +
			"Of its external addresses, which other networks use, those of nodes and of names count as unknown.",
		example: "export shop/web --from beijing --context beijing",
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
		use: "share NAMESPACE/NAME PERCENT --in CLUSTER", short: "Show what another share of a cluster's export would do",
		long:    "Shows what it would do if the ServiceExport in a cluster stated that share (clusterset.dev/share): so many per cent of its ready endpoints are used as usual.",
		example: "share shop/web 25 --in beijing",
		flags: func(p *previewCommand, flags *pflag.FlagSet) {
			flags.StringVar(&p.exporter, "in", "", "`cluster` that exports it (required)")
		},
		change: func(p *previewCommand, args []string) preview.Change {
			percent, err := topology.ParseShare(args[1])
			if err != nil {
				percent = -1 // an error, when it is applied
			}
			return preview.Change{Share: &preview.ExportShare{Service: args[0], In: p.exporter, Percent: int32(percent)}} //nolint:gosec // at most 100
		},
	},
	{
		use: "place CLUSTER", short: "Show what another place, network or communities of a cluster would do",
		long: "Shows what it would do to change fields of a cluster's MemberCluster; - stands for none, and those that aren't given stay. Its nodes stay where they are.\n" +
			"Clusters of other networks use only external addresses of its Services, in its external networks. The hub doesn't know those of nodes and API servers.",
		example: "place tianjin --zone cn-north-2a --region cn-north-2",
		flags: func(p *previewCommand, flags *pflag.FlagSet) {
			flags.StringSliceVar(&p.place.Zones, "zone", nil, "`zones` of the cluster")
			flags.StringVar(&p.place.Region, "region", "", "`region` of the cluster")
			flags.StringSliceVar(&p.place.Communities, "community", nil, "a `community` of the cluster. Repeat it for several")
			flags.StringVar(&p.place.Network, "network", "", "`network` of the cluster, - for that of clusters that name none")
			flags.StringSliceVar(&p.place.CIDRs, "cidrs", nil, "`networks` of its pods and Services; other clusters use no address outside of them")
			flags.StringSliceVar(&p.place.ExternalCIDRs, "external-cidrs", nil, "`networks` of its external addresses")
		},
		change: func(p *previewCommand, args []string) preview.Change {
			p.place.Cluster = args[0]
			return preview.Change{Place: &p.place}
		},
	},
	{
		use: "policy NAMESPACE/NAME", short: "Show what another policy of a service would do",
		long:    "Shows what it would do if all exports of a service stated a policy (clusterset.dev/prefer, boundary, min-ready and export-to on the ServiceExport).",
		example: "policy shop/web --boundary region --min-ready 3",
		flags: func(p *previewCommand, flags *pflag.FlagSet) {
			flags.StringSliceVar(&p.tiers, "prefer", nil, "`tiers`, the most preferred first: cluster, zone, region, or none (default: as now)")
			flags.StringVar(&p.policy.Boundary, "boundary", "", "`tier` that limits which endpoints are used: cluster, zone or region (default: as now)")
			flags.Int32Var(&p.policy.MinReady, "min-ready", 0, "`number` of ready endpoints that a tier needs (default: as now)")
			flags.StringSliceVar(&p.policy.ExportTo, "export-to", nil, "a `cluster` or community that may import it, - for all. Repeat it for several (default: as now)")
		},
		change: func(p *previewCommand, args []string) preview.Change {
			p.policy.Service, p.policy.Prefer = args[0], strings.Join(p.tiers, " ")
			return preview.Change{Policy: &p.policy}
		},
	},
}

func (p *previewCommand) exporterFlag(flags *pflag.FlagSet) {
	flags.StringVar(&p.exporter, "from", "", "`cluster` that exports it (required)")
}

// command returns the change's command.
func (c previewed) command() *cobra.Command {
	var p previewCommand
	_, takes, _ := strings.Cut(c.use, " ")
	takes, flag, required := strings.Cut(takes, " --")
	want := len(strings.Fields(takes))
	if c.long == "" {
		c.long = c.short + ", without doing it."
	}
	cmd := p.command(&cobra.Command{
		Use: c.use, Short: c.short, Long: c.long + previewHelp, Example: "  clusterset preview " + c.example + " --hub-context hub",
	}, func(args []string) ([]preview.Change, error) {
		switch {
		case takes == "CLUSTER..." && len(args) == 0:
			return nil, usagef("CLUSTER is missing: clusterset status lists the clusters")
		case takes != "CLUSTER..." && len(args) != want:
			return nil, usagef("want one %s, not %d", takes, len(args))
		case required && p.exporter == "":
			return nil, usagef("--%s is required: the cluster that exports %s", strings.Fields(flag)[0], args[0])
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
