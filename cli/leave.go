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
	cluster     string
	keepImports bool
	yes, force  bool
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
	flags.BoolVar(&l.keepImports, "keep-imports", false, "keep what the agent imported; names are still answered from its last state")
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
	if l.dryRun {
		members, err := l.hub.MemberClusters(ctx)
		if err != nil {
			return err
		}
		if !slices.Contains(memberNames(members), l.cluster) {
			return unknownMember(l.hub, l.cluster, members)
		}
	}
	if l.member != nil {
		// Before anything is deleted: with another member's kubeconfig, that member's imports would be deleted.
		if err := l.checkMember(ctx, l.cluster); err != nil {
			return err
		}
		if err := l.stopped(ctx); err != nil {
			return err
		}
	}
	l.rehearseAll()
	if err := l.ask(ctx, stdout); err != nil {
		return err
	}
	return l.say(stdout, l.leave(ctx, stdout))
}

func (l *leaveCommand) leave(ctx context.Context, stdout io.Writer) error {
	found, err := join.Leave(ctx, written(l.hub), l.cluster)
	if err != nil {
		return l.explain(err)
	}
	if l.member != nil {
		if err := l.cleanUp(ctx); err != nil {
			if l.dryRun {
				return l.member.Explain(err)
			}
			return fmt.Errorf("%s has left the hub, but the member wasn't cleaned up completely: %w", l.cluster, err)
		}
	}
	if l.dryRun {
		return nil
	}
	if err := l.tell(ctx, found, stdout); err != nil || !l.wait {
		return err
	}
	if err := l.followed(ctx, l.hub, l.cluster); err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "Nothing of %s is left in the other clusters that the hub hears from.\n", l.cluster)
	return err
}

func (l *leaveCommand) tell(ctx context.Context, found bool, stdout io.Writer) (err error) {
	switch {
	case found:
		_, err = fmt.Fprintf(stdout, "%s has left.\n", l.cluster)
	case l.member != nil:
		_, err = fmt.Fprintf(stdout, "%s isn't a member of this hub; the member itself is cleaned up.\n", l.cluster)
	default:
		members, err := l.hub.MemberClusters(ctx)
		if err != nil {
			return err
		}
		return unknownMember(l.hub, l.cluster, members)
	}
	return err
}

// stopped returns an error if the member's agent renews its Lease. Only a change shows that: the time in the Lease is by the member's clock.
func (l *leaveCommand) stopped(ctx context.Context) error {
	mc := &clustersetv1alpha1.MemberCluster{}
	if l.force || l.dryRun || l.hub.Get(ctx, client.ObjectKey{Name: l.cluster}, mc) == nil && silent(mc) { // for longer than this would wait
		return nil
	}
	lease, err := heartbeat(ctx, l.hub, l.cluster)
	if err != nil || lease == nil {
		return err
	}
	was := lease.Spec.RenewTime
	for began := time.Now(); time.Since(began) < between(lease); {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
		if lease, err = heartbeat(ctx, l.hub, l.cluster); err != nil || lease == nil {
			return err
		}
		if !lease.Spec.RenewTime.Equal(was) {
			return fmt.Errorf("%s hasn't left: its agent runs, and would import everything again; stop it (kubectl -n %s scale deployment clusterset-member --replicas 0) and repeat, "+
				"or leave with --force, or without its --kubeconfig, which cleans up nothing there", l.cluster, api.SystemNamespace)
		}
	}
	return nil
}

// heartbeat returns a member's Lease, nil if it has never been renewed.
func heartbeat(ctx context.Context, hub *objects.Cluster, cluster string) (*coordinationv1.Lease, error) {
	lease, err := access.Heartbeat(ctx, hub, cluster)
	if err != nil || lease == nil || lease.Spec.RenewTime == nil {
		return nil, hub.Words(err)
	}
	return lease, nil
}

// between is longer than an agent that runs lets pass between two heartbeats: its Lease is valid for four of them.
func between(lease *coordinationv1.Lease) time.Duration {
	valid := time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 40)) * time.Second
	return valid/2 + 5*time.Second
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
	if l.member == nil || l.keepImports {
		return fmt.Sprintf("Nothing is deleted in %s: its own clients go on getting the last answers, also from clusters that are gone by then.", l.cluster)
	}
	imports, err := l.member.ServiceImports(ctx)
	if err != nil || len(imports) == 0 {
		return fmt.Sprintf("The names of the set end for the clients in %s.", l.cluster)
	}
	var elsewhere []string
	for i := range imports {
		here := func(c mcsv1beta1.ClusterStatus) bool { return c.Cluster == l.cluster }
		if !slices.ContainsFunc(imports[i].Status.Clusters, here) {
			elsewhere = append(elsewhere, imports[i].Namespace+"/"+imports[i].Name)
		}
	}
	text := fmt.Sprintf("Clients in %s lose the names of the set, of %s", l.cluster, screen.Counted(len(imports), "service"))
	if len(elsewhere) == 0 {
		return text + ", all of which it has itself. Its Services no longer fail over to other clusters."
	}
	return fmt.Sprintf("%s; %s only elsewhere: %s. Its Services no longer fail over to other clusters.",
		text, map[bool]string{true: "1 runs", false: fmt.Sprint(len(elsewhere), " run")}[len(elsewhere) == 1], screen.Several(elsewhere, 3, ", "))
}

func (l *leaveCommand) cleanUp(ctx context.Context) error {
	if err := join.RemoveSecret(ctx, l.member, l.secret); err != nil {
		return err
	}
	if err := join.RemoveProperties(ctx, l.member); err != nil || l.keepImports {
		return err
	}
	return join.RemoveTraces(ctx, l.member)
}
