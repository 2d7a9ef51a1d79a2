package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/clusterset/clusterset/cli/explain"
	"github.com/clusterset/clusterset/cli/place"
	"github.com/clusterset/clusterset/internal/manifests"
	"github.com/clusterset/clusterset/internal/near"
	"github.com/clusterset/clusterset/internal/topology"
)

// explainCommand is `clusterset explain`.
type explainCommand struct {
	clusters
	output
	from, manifests, boundary string
	prefer                    []string
}

func newExplain() *cobra.Command {
	var e explainCommand
	cmd := configured(&cobra.Command{
		Use:   "explain NAME",
		Short: "Show which addresses a name has, and why",
		Long: `Shows what DNS answers for a name, and why: which object answers, which tier was chosen, which endpoints are used, the state
of their clusters, and what the exports disagree about. The DNS server's own code finds the answer.

NAME is NAMESPACE/SERVICE, or a whole name such as web.shop.svc.clusterset.local or db-0.beijing.db.shop.svc.clusterset.local.
Names below svc.global are answered as FabDNS does. SERVICE.NAMESPACE.svc.cluster.local is the local cluster's own Service,
whatever the cluster's domain is: explain shows what its address leads to, and whether it fails over to other clusters.
SERVICE.NAMESPACE and SERVICE.NAMESPACE.svc are what they are in a pod, the own Service, unless --from or --manifests is set.

The answer depends on the server's location. --from gives it as the server's Corefile does: cluster, zone and region, or "-"
if one is unknown. With a cluster alone, zone and region are those of its MemberCluster if it has one zone. The default is the
local cluster. If the server has the options prefer or boundary, use the flags of the same names. explain doesn't know the
options dialect, namespaces, max_answers, fallthrough and snapshot: it shows the answer without them.` + exitHelp,
		Example: `  clusterset explain shop/web
  clusterset explain nginx.default.svc.global --from xicheng/beijing/north
  clusterset explain db.shop --manifests examples/manifests --from tianjin/tianjin/north -o wide`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return e.run(cmd.Context(), args[0], cmd.OutOrStdout())
		},
	})
	cmd.Args = oneArg("NAME", "a service, such as shop/web or web.shop.svc.clusterset.local")
	flags := cmd.Flags()
	flags.StringVar(&e.from, "from", "", "`place` of the server: cluster/zone/region (default: the local cluster's)")
	flags.StringVar(&e.manifests, "manifests", "", "read the objects from the files in this `directory`, like the server's option manifests, or from one file, such as a server's snapshot, instead of a cluster")
	flags.StringSliceVar(&e.prefer, "prefer", nil, "`tiers` in the order in which the server tries them: cluster, zone, region, or none (default: zone,region)")
	flags.StringVar(&e.boundary, "boundary", "", "`tier` that limits which endpoints are answered: cluster, zone or region (default: none)")
	e.clusters.addFlags(flags)
	e.addFlag(cmd, "table", "wide", "json", "yaml")
	return cmd
}

// oneArg requires exactly one argument, which the usage calls name.
func oneArg(name, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch len(args) {
		case 0:
			return usagef("%s is missing: %s; see %s --help", name, what, cmd.CommandPath())
		case 1:
			return nil
		}
		return usagef("unexpected argument %q; see %s --help", args[1], cmd.CommandPath())
	}
}

func (e *explainCommand) run(ctx context.Context, name string, w io.Writer) error {
	q, err := e.query(name)
	if err != nil {
		return err
	}
	if q.Name.Zone == explain.OwnZone || q.Name.Short && e.manifests == "" && e.from == "" {
		return e.own(ctx, q.Name, w)
	}
	facts, hubErr, err := e.fetch(ctx, q)
	if err != nil {
		return err
	}
	from := cmp.Or(e.from, facts.Self)
	if q.From, err = place.Parse(from); err != nil {
		return usagef("--from: %w", err)
	}
	if e.from != "" {
		if err := facts.Known(q.From.Cluster); err != nil {
			return usagef("--from: %w", err)
		}
	}
	if !strings.Contains(from, "/") {
		q.From = facts.Locate(q.From.Cluster)
	}
	if b := q.Policy.Boundary; !q.From.Has(b) {
		return usagef("--boundary %s: the server's %s is unknown, so no endpoint would be within it; set --from CLUSTER/ZONE/REGION", b, b)
	}
	explanation, err := explain.Explain(*q, *facts)
	if err != nil {
		return errors.Join(err, hubErr)
	}
	return errors.Join(e.show(w, explanation), hubErr)
}

func (e *explainCommand) show(w io.Writer, explanation *explain.Explanation) error {
	return e.write(w, explanation, func() string {
		return explain.Screen{Wide: e.wide(), Colours: colours(w)}.Render(explanation)
	})
}

// own explains the name of the local cluster's own Service.
func (e *explainCommand) own(ctx context.Context, name explain.Name, w io.Writer) error {
	if e.manifests != "" || e.from != "" {
		return usagef("%s is the name of a cluster's own Service: --manifests and --from don't apply to it", name)
	}
	c, err := e.openLocal()
	if err != nil {
		return err
	}
	own, err := explain.FetchOwn(ctx, c, name)
	ofTheSet := fmt.Sprintf("clusterset explain %s/%s explains the service of the set", name.Key.Namespace(), name.Key.Name())
	switch {
	case err != nil:
		return err
	case own == nil:
		return fmt.Errorf("%s is NXDOMAIN: this cluster has no Service %s/%s; %s", name.Own(), name.Key.Namespace(), name.Key.Name(), ofTheSet)
	}
	explanation := own.Explain()
	if name.Short {
		explanation.Notes = append(explanation.Notes, ofTheSet)
	}
	return e.show(w, explanation)
}

// query returns the part of the query that needs no cluster.
func (e *explainCommand) query(name string) (*explain.Query, error) {
	var q explain.Query
	var err error
	if q.Name, err = explain.ParseName(name); err != nil {
		return nil, usageError{err}
	}
	if z := q.Name.Zone; z != explain.DefaultZone && z != "global" && z != explain.OwnZone {
		return nil, usagef("%w (.svc.global is one too; names in a server's other zones have the addresses of those in %s; "+
			"for a Service of the cluster itself write .svc.%s, whatever the cluster's domain is)",
			near.Unknown("zone", z, []string{explain.DefaultZone, "global"}), explain.DefaultZone, explain.OwnZone)
	}
	if len(e.prefer) > 0 {
		if q.Policy.Prefer, err = topology.ParsePrefer(strings.Join(e.prefer, " ")); err != nil {
			return nil, usagef("--prefer: %w", err)
		}
	}
	if e.boundary != "" {
		if q.Policy.Boundary, err = topology.ParseTier(e.boundary); err != nil {
			return nil, usagef("--boundary: %w", err)
		}
	}
	if _, err := place.Parse(e.from); err != nil {
		return nil, usagef("--from: %w", err)
	}
	return &q, nil
}

// fetch reads the objects. hubErr says why those of the hub are missing.
func (e *explainCommand) fetch(ctx context.Context, q *explain.Query) (facts *explain.Facts, hubErr, err error) {
	if e.manifests != "" {
		if e.hasLocal() {
			return nil, nil, usagef("--manifests and --kubeconfig can't be used together")
		}
		located, notes, err := manifests.Read(e.manifests)
		if err != nil {
			return nil, nil, usagef("--manifests: %w", err)
		}
		return explain.FromManifests(located, notes), nil, nil
	}
	c, err := e.openLocal()
	if err != nil {
		return nil, nil, err
	}
	hub, err := e.openHub()
	if err != nil {
		return nil, nil, err
	}
	if facts, err = explain.Fetch(ctx, c, q.Name.Key); err != nil {
		return nil, nil, err
	}
	if hub != nil {
		if hubErr = facts.FetchExports(ctx, hub, q.Name.Key, facts.Self); hubErr != nil {
			facts.Notes = append(facts.Notes, "this is what the cluster knows without the hub: "+hubErr.Error())
		}
	}
	return facts, hubErr, nil
}
