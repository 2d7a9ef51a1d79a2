package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"github.com/clusterset/clusterset/cli/objects"
	"github.com/clusterset/clusterset/cli/place"
	"github.com/clusterset/clusterset/cli/preview"
	"github.com/clusterset/clusterset/cli/screen"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/internal/topology"
)

// previewCommand is `clusterset preview` and its subcommands.
type previewCommand struct {
	clusters
	output
	file, manifests string
	services        []string
	from            string // a place
	dataPath        string
	prefer          []string

	exporter string   // of the one service
	cutOff   []string // clusters
	place    preview.Place
	policy   preview.Policy
	tiers    []string
}

// recordsCommand writes a hub's records for --manifests.
const recordsCommand = "kubectl get memberclusters,exportedservices,exportedendpoints,memberreports -A -o yaml"

const previewHelp = `

It reads the hub's records, and changes nothing. --manifests reads them from files instead, as written by
` + recordsCommand + ` on the hub.

For each service, and each place that has clients, it shows what changes: the answers to the names below clusterset.local and
svc.global, and where connections to the ClusterSetIP lead, as clusters with their number of ready endpoints. The worst changes come
first. A place is a cluster, a zone of the cluster or its nodes, and its region. Silent clusters aren't places. The hub doesn't know
the flags of agents and servers. They are assumed to be the same everywhere; set --data-path and --default-prefer as they have them.

Exit codes: 0 success; 1 failure (stderr says what is wrong, and what to do about it); 2 usage error; 3 a name or
a ClusterSetIP would lose its last endpoint somewhere.`

func newPreview() *cobra.Command {
	var p previewCommand
	cmd := p.command(&cobra.Command{
		Use:   "preview",
		Short: "Show what a change would do, without doing it",
		Long: `Shows what would change for clients if clusters went down, couldn't be reached, were drained or left, if a Service were exported, no longer
or by a share only, if a cluster were elsewhere, in other communities or in another network, or if a service had another policy or were for other
clusters. Each change has its own command; --file takes several and applies them in order:

  - drain: [beijing]
  - down: [shanghai, guangzhou]
  - unreachable: {clusters: [beijing], from: [shanghai]}
  - export: {service: shop/web, from: tianjin, context: tianjin}
  - place: {cluster: tianjin, zones: [cn-north-2a], region: cn-north-2}
  - place: {cluster: tianjin, communities: [payments], network: edge, cidrs: [10.2.0.0/16], externalCIDRs: [192.0.2.0/24]}
  - share: {service: shop/web, in: tianjin, percent: 25}
  - policy: {service: shop/web, prefer: zone region, boundary: region, minReady: 3, exportTo: [shanghai]}

There are undrain, leave and unexport as well.` + previewHelp,
		Example: `  clusterset preview drain beijing --hub-context hub
  clusterset preview --file changes.yaml --hub-context hub -o json`,
	}, func(args []string) ([]preview.Change, error) {
		if len(args) > 0 {
			return nil, usagef("unknown command %q; see clusterset preview --help", args[0])
		}
		return p.fromFile()
	})
	cmd.Flags().StringVarP(&p.file, "file", "f", "", "YAML `file` with the changes (- for the standard input)")
	p.addLocalFlags(cmd.Flags(), "that exports without a context refer to")
	p.placeFlag(cmd.Flags())
	for _, c := range previews {
		cmd.AddCommand(c.command())
	}
	return cmd
}

// command completes a command that previews the changes.
func (p *previewCommand) command(cmd *cobra.Command, changes func(args []string) ([]preview.Change, error)) *cobra.Command {
	configured(cmd)
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		what, err := changes(args)
		if err != nil {
			return err
		}
		return p.run(cmd.Context(), cmd.OutOrStdout(), what)
	}
	flags := cmd.Flags()
	p.addHubFlags(flags, "whose records are read (it, --hub-context or --manifests is required)")
	flags.StringVar(&p.manifests, "manifests", "", "read the hub's records from the files in this `directory`, or from one file")
	flags.StringSliceVar(&p.services, "for", nil, "`services` to show, each as namespace/name (default: all)")
	p.addAssumedFlags(flags)
	p.addFlag(cmd, "table", "wide", "json", "yaml")
	return cmd
}

// fromFile reads the changes of --file.
func (p *previewCommand) fromFile() (changes []preview.Change, err error) {
	var content []byte
	switch p.file {
	case "":
		return nil, usagef("no change is given; name one (%s), or a file with --file", preview.Kinds)
	case "-":
		content, err = io.ReadAll(os.Stdin)
	default:
		content, err = os.ReadFile(p.file)
	}
	if err != nil {
		return nil, usagef("--file: %w", err)
	}
	if err := yaml.UnmarshalStrict(content, &changes); err != nil {
		return nil, usagef("--file %s: want a list of changes, each with one of %s: %w", p.file, preview.Kinds, err)
	}
	return changes, nil
}

// addAssumedFlags adds the flags for settings that the hub has no record of.
func (p *previewCommand) addAssumedFlags(flags *pflag.FlagSet) {
	flags.StringVar(&p.dataPath, "data-path", string(desired.DataPathPods), "what ClusterSetIPs lead to, as set for the agents: pods, clusterips or none")
	flags.StringSliceVar(&p.prefer, "default-prefer", nil, "`tiers` that servers and agents prefer where a service states none: cluster, zone, region, or none (default: zone,region)")
}

func (p *previewCommand) placeFlag(flags *pflag.FlagSet) {
	flags.StringVar(&p.from, "from", "", "`place` of the clients to show: cluster/zone/region, - for any (default: all)")
}

// options returns the options for the flags.
func (p *previewCommand) options() (o preview.Options, err error) {
	if o, err = p.assumed(); err != nil {
		return o, err
	}
	if o.From, err = place.Parse(p.from); err != nil {
		return o, usagef("--from: %w", err)
	}
	for _, text := range p.services {
		key, err := preview.ParseService(text)
		if err != nil {
			return o, usagef("--for: %w", err)
		}
		o.Services = append(o.Services, key)
	}
	return o, nil
}

// assumed reads the settings that the hub has no record of.
func (p *previewCommand) assumed() (o preview.Options, err error) {
	if o.DataPath, err = desired.ParseDataPath(p.dataPath); err != nil {
		return o, usagef("--data-path: %w", err)
	}
	if len(p.prefer) > 0 {
		if o.Policy.Prefer, err = topology.ParsePrefer(strings.Join(p.prefer, " ")); err != nil {
			return o, usagef("--default-prefer: %w", err)
		}
	}
	return o, nil
}

// lostError means that a name would lose its last endpoint.
type lostError struct{ services int }

func (e lostError) Error() string {
	return screen.Counted(e.services, "service") + " would lose the last endpoint in some place"
}

func (p *previewCommand) run(ctx context.Context, w io.Writer, changes []preview.Change) error {
	o, err := p.options()
	if err != nil {
		return err
	}
	state, found, err := p.state(ctx)
	if err != nil {
		return err
	}
	var notes []string
	for i := range changes {
		if e := changes[i].Export; e != nil {
			said, err := p.read(ctx, e, found)
			if err != nil {
				return err
			}
			notes = append(notes, said...)
		}
	}
	result, err := state.Preview(ctx, changes, o)
	if err != nil {
		return usageError{err}
	}
	result.Notes = append(result.Notes, notes...)
	err = p.write(w, result, func() string {
		return preview.Screen{Wide: p.wide(), Colours: colours(w)}.Render(result)
	})
	if err == nil && result.Loses() {
		return lostError{result.Summary.Effects[preview.Lost]}
	}
	return err
}

// before prints in one line what a change is about to do, and returns it, or nil if there is nothing to print.
func before(ctx context.Context, hub *objects.Cluster, change preview.Change, stdout io.Writer) (*preview.Result, error) {
	state, err := fetchState(ctx, hub)
	if err != nil {
		return nil, err
	}
	result, err := state.Preview(ctx, []preview.Change{change}, preview.Options{})
	if err != nil {
		return nil, nil //nolint:nilerr // the command itself reports what is wrong with the change
	}
	_, err = fmt.Fprintln(stdout, result.Summary.Text)
	return result, err
}

// agreed asks a person at a terminal whether to go on if names are lost.
func agreed(ctx context.Context, name string, r *preview.Result, stdin *os.File, stdout io.Writer) error {
	var lost []string
	for _, svc := range r.Services {
		if slices.Contains(svc.Effects, preview.Lost) {
			lost = append(lost, svc.Key().String())
		}
	}
	_, _ = fmt.Fprintf(stdout, "  %s\n", screen.Several(lost, 10, "\n  "))
	if !isTerminal(stdin) {
		return fmt.Errorf("%s hasn't left: %s; clusterset preview leave %s shows where; use --yes to leave anyway", name, lostError{r.Summary.Effects[preview.Lost]}.Error(), name)
	}
	_, _ = fmt.Fprintf(stdout, "Take %s off the hub anyway? [y/N] ", name)
	line := make(chan string, 1)
	go func() { // a read doesn't end with ctx, but the process does
		answer, _ := bufio.NewReader(stdin).ReadString('\n')
		line <- answer
	}()
	answer := ""
	select {
	case <-ctx.Done():
	case answer = <-line:
	}
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
		return fmt.Errorf("%s hasn't left; nothing was changed", name)
	}
	return nil
}
