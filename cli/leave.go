package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/join"
	"github.com/clusterset/clusterset/cli/objects"
	"github.com/clusterset/clusterset/cli/preview"
	"github.com/clusterset/clusterset/cli/screen"
	"github.com/clusterset/clusterset/hub/access"
)

// leaveCommand is `clusterset leave`.
type leaveCommand struct {
	membership
	cluster    string
	yes, force bool
}

func newLeave() *cobra.Command {
	var l leaveCommand
	cmd := configured(&cobra.Command{
		Use:   "leave CLUSTER",
		Short: "Remove a member from its hub",
		Long: `Undoes join: deletes the member's account, records, namespace and MemberCluster on the hub, so that the other members stop
answering with its endpoints.

With the member's own kubeconfig it also deletes the agent's Secret there, and what the agent imported: names of the set end
for its own clients. Stop the agent first: leave waits for longer than the time between two heartbeats, and refuses if there is
one, because a running agent would import everything again. It can be repeated, and works for clusters that are gone for good.

It first prints in one line what that changes; clusterset preview leave shows the details. If a name would lose its last
endpoint it asks for confirmation, and without a terminal it refuses.`,
		Example: `  clusterset leave beijing --hub-kubeconfig hub.yaml --kubeconfig beijing.yaml
  clusterset leave burnt-down --hub-kubeconfig hub.yaml`,
		RunE: func(cmd *cobra.Command, args []string) error {
			l.cluster = args[0]
			return l.run(cmd.Context(), cmd.OutOrStdout())
		},
	})
	cmd.Args = oneArg("CLUSTER", "clusterset status lists the clusters")
	flags := cmd.Flags()
	flags.BoolVar(&l.force, "force", false, "leave although the member's agent may run: it imports everything again, until it notices or is stopped")
	flags.BoolVar(&l.yes, "yes", false, "don't ask, even if names lose their last endpoint")
	l.membership.addFlags(flags, "to clean up there as well (default: don't)", "the agent's Secret in the member",
		"every other cluster that the hub hears from has dropped the member")
	return cmd
}

func (l *leaveCommand) run(ctx context.Context, stdout io.Writer) error {
	if err := api.CheckMemberName(l.cluster); err != nil {
		return usagef("cluster %q %w", l.cluster, err)
	}
	if err := l.open(); err != nil {
		return err
	}
	if err := l.check(ctx, l.cluster); err != nil {
		return err
	}
	if l.member != nil {
		if err := l.stopped(ctx); err != nil {
			return err
		}
	}
	if err := l.ask(ctx, stdout); err != nil {
		return err
	}
	return l.say(stdout, l.leave(ctx, stdout))
}

func (l *leaveCommand) leave(ctx context.Context, stdout io.Writer) error {
	found, err := join.Leave(ctx, written(l.hub), l.cluster)
	if err != nil {
		return l.hub.Explain(err)
	}
	if l.member != nil {
		if err := l.cleanUp(ctx); err != nil {
			if l.dryRun {
				return l.member.Explain(err)
			}
			return fmt.Errorf("%s has left the hub, but the member wasn't cleaned up completely: %w", l.cluster, err)
		}
	}
	if !found && l.member == nil {
		members, err := l.hub.MemberClusters(ctx)
		if err != nil {
			return err
		}
		return unknownMember(l.hub, l.cluster, members)
	}
	if l.dryRun {
		return nil
	}
	text := "%s has left.\n"
	if !found {
		text = "%s isn't a member of this hub; the member itself is cleaned up.\n"
	}
	if _, err := fmt.Fprintf(stdout, text, l.cluster); err != nil || !l.wait {
		return err
	}
	if err := l.followed(ctx, l.hub, l.cluster); err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "Nothing of %s is left in the other clusters that the hub hears from.\n", l.cluster)
	return err
}

// stopped returns an error if the member's agent renews its Lease. Only a change shows that: the time in the Lease is by the member's clock.
func (l *leaveCommand) stopped(ctx context.Context) error {
	mc := &clustersetv1alpha1.MemberCluster{}
	silent := []clustersetv1alpha1.MemberClusterPhase{clustersetv1alpha1.MemberSuspect, clustersetv1alpha1.MemberExpired} // for longer than this would wait
	if l.force || l.dryRun || l.hub.Get(ctx, client.ObjectKey{Name: l.cluster}, mc) == nil && slices.Contains(silent, mc.Status.Phase) {
		return nil
	}
	was, err := heartbeat(ctx, l.hub, l.cluster)
	if err != nil || was == nil {
		return err
	}
	valid := time.Duration(ptr.Deref(was.Spec.LeaseDurationSeconds, 40)) * time.Second // the time of four heartbeats
	err = wait.PollUntilContextTimeout(ctx, time.Second, valid/2+5*time.Second, false, func(ctx context.Context) (bool, error) {
		is, err := heartbeat(ctx, l.hub, l.cluster)
		return err == nil && is != nil && !is.Spec.RenewTime.Equal(was.Spec.RenewTime), err
	})
	switch {
	case err == nil:
		return fmt.Errorf("%s hasn't left: its agent runs, and would import everything again; stop it (kubectl -n %s scale deployment clusterset-member --replicas 0) and repeat, "+
			"or leave with --force, or without its --kubeconfig, which cleans up nothing there", l.cluster, api.SystemNamespace)
	case wait.Interrupted(err) && ctx.Err() == nil:
		return nil
	}
	return err
}

// heartbeat returns a member's Lease, nil if it has never been renewed.
func heartbeat(ctx context.Context, hub *objects.Cluster, cluster string) (*coordinationv1.Lease, error) {
	lease, err := access.Heartbeat(ctx, hub, cluster)
	if err != nil || lease == nil || lease.Spec.RenewTime == nil {
		return nil, hub.Words(err)
	}
	return lease, nil
}

// ask shows what changes, for the others and for the member's own clients, and returns nil if the user agrees.
func (l *leaveCommand) ask(ctx context.Context, stdout io.Writer) error {
	r, err := before(ctx, l.hub, preview.Change{Leave: []string{l.cluster}}, stdout)
	if objects.NotServed(err) {
		err = nil
	}
	if err == nil && r != nil {
		_, err = fmt.Fprintln(stdout, l.own(ctx))
	}
	switch {
	case l.yes || l.dryRun:
		return nil
	case err != nil:
		return err
	case r != nil && r.Loses():
		return agreed(ctx, l.cluster, r, os.Stdin, stdout)
	}
	return nil
}

func (l *leaveCommand) own(ctx context.Context) string {
	if l.member == nil {
		return fmt.Sprintf("Nothing is deleted in %s: its own clients go on getting the last answers, also from clusters that are gone by then.", l.cluster)
	}
	text := fmt.Sprintf("The names of the set end for the clients in %s, and its Services no longer fail over to other clusters.", l.cluster)
	imports, err := l.member.ServiceImports(ctx)
	var elsewhere []string
	for i := range imports {
		here := func(c mcsv1beta1.ClusterStatus) bool { return c.Cluster == l.cluster }
		if !slices.ContainsFunc(imports[i].Status.Clusters, here) {
			elsewhere = append(elsewhere, imports[i].Namespace+"/"+imports[i].Name)
		}
	}
	if err != nil || len(elsewhere) == 0 {
		return text
	}
	return text + " Of these it hasn't itself: " + screen.Several(elsewhere, 3, ", ") + "."
}

func (l *leaveCommand) cleanUp(ctx context.Context) error {
	if err := join.RemoveSecret(ctx, l.member, l.secret); err != nil {
		return err
	}
	if err := join.RemoveProperties(ctx, l.member); err != nil {
		return err
	}
	return join.RemoveTraces(ctx, l.member)
}
