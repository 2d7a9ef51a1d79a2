package cli

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/objects"
	"github.com/clusterset/clusterset/cli/preview"
	"github.com/clusterset/clusterset/internal/near"
)

// drainCommand is `clusterset drain` and `clusterset undrain`.
type drainCommand struct {
	clusters
	waiting
	dry
	drain bool
}

func newDrain() *cobra.Command {
	return (&drainCommand{drain: true}).command(&cobra.Command{
		Use:   "drain CLUSTER",
		Short: "Use a cluster only as a last resort",
		Long: `Sets spec.drain of the cluster's MemberCluster on the hub. Within seconds every member ranks the cluster's endpoints behind
all others, whatever the distance, in DNS and behind ClusterSetIPs: they are used only for services that are ready nowhere else.
Existing connections stay. With --wait it returns when they do. It first prints in one line what that changes; clusterset preview drain shows the details.

Draining a drained cluster changes nothing. clusterset undrain undoes it.` + exitHelp,
		Example: `  clusterset drain beijing --hub-kubeconfig hub.yaml
  clusterset drain beijing --hub-context hub`,
	})
}

func newUndrain() *cobra.Command {
	return (&drainCommand{}).command(&cobra.Command{
		Use:   "undrain CLUSTER",
		Short: "Use a drained cluster again",
		Long: `Undoes clusterset drain: the cluster's endpoints are ranked by their distance again as soon as its phase is Ready.
Undraining a cluster that isn't drained changes nothing.` + exitHelp,
		Example: `  clusterset undrain beijing --hub-kubeconfig hub.yaml`,
	})
}

func (d *drainCommand) command(cmd *cobra.Command) *cobra.Command {
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return d.run(cmd.Context(), args[0], cmd.OutOrStdout(), cmd.ErrOrStderr())
	}
	configured(cmd)
	cmd.Args = oneArg("CLUSTER", "clusterset status lists the clusters")
	d.addHubFlags(cmd.Flags(), "where clusters are drained (it or --hub-context is required)")
	d.addDryRun(cmd.Flags())
	d.waiting.addFlags(cmd.Flags(), "every other cluster that the hub hears from has followed")
	return cmd
}

func (d *drainCommand) run(ctx context.Context, name string, stdout, stderr io.Writer) error {
	hub, err := d.change(ctx, name, stdout, stderr)
	if err != nil || !d.wait || d.dryRun {
		return err
	}
	if err := d.followed(ctx, hub, name); err != nil {
		return err
	}
	_, err = io.WriteString(stdout, "Every other cluster that the hub hears from has followed.\n")
	return err
}

// change drains or undrains a cluster, and returns the hub.
func (d *drainCommand) change(ctx context.Context, name string, stdout, stderr io.Writer) (*objects.Cluster, error) {
	if err := api.CheckClusterName(name); err != nil {
		return nil, usagef("cluster %q %w", name, err)
	}
	hub, err := d.openHub()
	if err != nil {
		return nil, err
	}
	if hub == nil {
		return nil, usagef("--hub-kubeconfig or --hub-context is required: clusters are drained on the hub")
	}
	members, err := hub.HubMembers(ctx) // in a member, the importer would undo it, after it had been used for a while
	if err != nil {
		return hub, err
	}
	mc, err := present(hub, name, members)
	if err != nil {
		return nil, err
	}
	if mc.Spec.Drain == d.drain {
		state := map[bool]string{true: "is drained already", false: "isn't drained"}[d.drain]
		_, err = fmt.Fprintf(stdout, "%s %s; nothing changed.\n", name, state)
		return hub, err
	}
	if d.drain {
		if _, err := before(ctx, hub, preview.Change{Drain: []string{name}}, stdout); err != nil { // a drain may be urgent, so it doesn't ask
			_, _ = fmt.Fprintf(stderr, "clusterset: warning: can't tell what this changes: %v\n", err)
		}
	}
	d.rehearse(hub, "On the hub")
	if err := d.say(stdout, d.patch(ctx, hub, mc)); err != nil {
		return hub, err
	}
	if !d.dryRun {
		_, err = io.WriteString(stdout, d.done(mc))
	}
	return hub, err
}

// patch changes only this field, whatever else someone changes at the same time.
func (d *drainCommand) patch(ctx context.Context, hub *objects.Cluster, mc *clustersetv1alpha1.MemberCluster) error {
	before := mc.DeepCopy()
	mc.Spec.Drain = d.drain
	return hub.Words(hub.Patch(ctx, mc, client.MergeFrom(before), client.FieldOwner(api.FieldManagerCLI)))
}

func (d *drainCommand) done(mc *clustersetv1alpha1.MemberCluster) string {
	if d.drain {
		return fmt.Sprintf("%s is drained: spec.drain of its MemberCluster was false and is true. Its endpoints now rank last; clusterset undrain %s undoes it.\n", mc.Name, mc.Name)
	}
	return fmt.Sprintf("%s is no longer drained: spec.drain of its MemberCluster was true and is false. Its endpoints rank by their distance again while it is Ready.\n", mc.Name)
}

func present(hub *objects.Cluster, name string, members []clustersetv1alpha1.MemberCluster) (*clustersetv1alpha1.MemberCluster, error) {
	for i := range members {
		if members[i].Name == name && !members[i].Left() {
			return &members[i], nil
		}
	}
	return nil, unknownMember(hub, name, members)
}

func unknownMember(hub *objects.Cluster, name string, members []clustersetv1alpha1.MemberCluster) error {
	if len(members) == 0 {
		return usagef("the hub at %s has no members, so there is no %s; is it the right hub? Check %s", hub.Server, name, hubFlags)
	}
	there := slices.DeleteFunc(slices.Clone(members), func(mc clustersetv1alpha1.MemberCluster) bool { return mc.Left() })
	return usagef("on the hub at %s %w", hub.Server, near.Unknown("cluster", name, memberNames(there)))
}

func memberNames(members []clustersetv1alpha1.MemberCluster) []string {
	names := make([]string, len(members))
	for i := range members {
		names[i] = members[i].Name
	}
	slices.Sort(names)
	return names
}
