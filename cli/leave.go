package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/cli/join"
	"github.com/clusterset/clusterset/cli/objects"
	"github.com/clusterset/clusterset/cli/preview"
)

// leaveCommand is `clusterset leave`.
type leaveCommand struct {
	hubKubeconfig, hubContext string
	kubeconfig, context       string
	cluster, secret           string
	keepImports               bool
	yes                       bool
}

func newLeave() *cobra.Command {
	var l leaveCommand
	cmd := configured(&cobra.Command{
		Use:   "leave",
		Short: "Remove a member from its hub",
		Long: `Undoes join: deletes the member's account, records, namespace and MemberCluster on the hub, so that the other members stop
answering with its endpoints.

With the member's own kubeconfig it also deletes the agent's Secret there, and what the agent imported: names of the set end
for its own clients. Stop the agent first: leave waits up to 25s for a heartbeat, and refuses if there is one, because a
running agent would import everything again. It can be repeated, and works for clusters that are gone for good.

It first prints in one line what that changes; clusterset preview leave shows the details. If a name would lose its last
endpoint it asks for confirmation, and without a terminal it refuses.`,
		Example: `  clusterset leave --hub-kubeconfig hub.yaml --kubeconfig beijing.yaml --name beijing
  clusterset leave --hub-kubeconfig hub.yaml --name burnt-down`,
		RunE: func(cmd *cobra.Command, _ []string) error { return l.run(cmd.Context(), cmd.OutOrStdout()) },
	})
	flags := cmd.Flags()
	flags.StringVar(&l.hubKubeconfig, "hub-kubeconfig", "", "kubeconfig `file` of an administrator of the hub (it or --hub-context is required)")
	flags.StringVar(&l.hubContext, "hub-context", "", "`context` of that file, or of kubectl's (default: its current one)")
	flags.StringVar(&l.cluster, "name", "", "the cluster's `name` in the set (required)")
	flags.StringVar(&l.kubeconfig, "kubeconfig", "", "kubeconfig `file` of the member, to clean up there as well (default: don't)")
	flags.StringVar(&l.context, "context", "", "`context` of that file, or of kubectl's (default: its current one)")
	flags.StringVar(&l.secret, "secret", api.SystemNamespace+"/"+api.HubSecret, "`namespace/name` of the agent's Secret in the member")
	flags.BoolVar(&l.yes, "yes", false, "don't ask, even if names lose their last endpoint")
	flags.BoolVar(&l.keepImports, "keep-imports", false, "keep what the agent imported; names are still answered from its last state")
	return cmd
}

func (l *leaveCommand) run(ctx context.Context, stdout io.Writer) error {
	log.SetLogger(logr.Discard()) // everything worth saying is printed
	if l.hubKubeconfig == "" && l.hubContext == "" {
		return usagef("--hub-kubeconfig or --hub-context is required: the kubeconfig of an administrator of the hub")
	}
	if l.cluster == "" {
		return usagef("--name is required: the cluster's name in the set; clusterset status lists them")
	}
	if err := api.CheckMemberName(l.cluster); err != nil {
		return usagef("--name is %q; it %w", l.cluster, err)
	}
	secret, err := parseKey(l.secret)
	if err != nil {
		return usagef("--secret: %w", err)
	}
	hub, member, err := openBoth(clusters{
		kubeconfig: l.kubeconfig, context: l.context, hubKubeconfig: l.hubKubeconfig, hubContext: l.hubContext,
	})
	if err != nil {
		return err
	}
	if member != nil {
		// Before anything is deleted: with another member's kubeconfig, that member's imports would be deleted.
		if err := checkMember(ctx, member, secret, l.cluster); err != nil {
			return err
		}
		if err := stopped(ctx, hub.Cluster, l.cluster); err != nil {
			return err
		}
	}
	if err := l.ask(ctx, hub.Cluster, stdout); err != nil {
		return err
	}
	found, err := join.Leave(ctx, hub.config, l.cluster)
	if err != nil {
		return hub.explain(err)
	}
	if member != nil {
		if err := l.cleanUp(ctx, member, secret); err != nil {
			return fmt.Errorf("%s has left the hub, but the member was not cleaned up completely: %w", l.cluster, err)
		}
	}
	switch {
	case found:
		_, err = fmt.Fprintf(stdout, "%s has left.\n", l.cluster)
	case member != nil:
		_, err = fmt.Fprintf(stdout, "%s is not a member of this hub; the member itself is cleaned up.\n", l.cluster)
	default:
		return fmt.Errorf("%s is not a member of this hub; kubectl get memberclusters lists its members", l.cluster)
	}
	return err
}

// heartbeats is the time in which an agent that runs renews its Lease at least once, with the usual interval of 10s.
const heartbeats = 25 * time.Second

// stopped returns an error if the member's agent renews its Lease. A Lease that is older needs no wait.
func stopped(ctx context.Context, hub *objects.Cluster, cluster string) error {
	renewed := func() (time.Time, error) {
		lease := &coordinationv1.Lease{}
		err := hub.Get(ctx, client.ObjectKey{Namespace: api.MemberNamespace(cluster), Name: api.HeartbeatLease}, lease)
		if apierrors.IsNotFound(err) || err == nil && lease.Spec.RenewTime == nil {
			return time.Time{}, nil
		}
		if err != nil {
			return time.Time{}, hub.Words(err)
		}
		return lease.Spec.RenewTime.Time, nil
	}
	last, err := renewed()
	if err != nil || time.Since(last).Abs() > heartbeats {
		return err
	}
	for began := time.Now(); time.Since(began) < heartbeats; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
		now, err := renewed()
		if err != nil {
			return err
		}
		if now.After(last) {
			return fmt.Errorf("%s has not left: its agent runs, and would import everything again; stop it (kubectl -n %s scale deployment clusterset-member --replicas 0) and repeat, "+
				"or leave without its --kubeconfig, which cleans up nothing there", cluster, api.SystemNamespace)
		}
	}
	return nil
}

// ask shows what changes, and returns nil if the user agrees.
func (l *leaveCommand) ask(ctx context.Context, hub *objects.Cluster, stdout io.Writer) error {
	r, err := before(ctx, hub, preview.Change{Leave: []string{l.cluster}}, stdout)
	switch {
	case l.yes || objects.NotServed(err):
		return nil
	case err != nil:
		return err
	case r != nil && r.Loses():
		return agreed(l.cluster, r, os.Stdin, stdout)
	}
	return nil
}

// cleanUp deletes what join and the agent wrote in the member.
func (l *leaveCommand) cleanUp(ctx context.Context, member client.Client, secret types.NamespacedName) error {
	if err := join.RemoveSecret(ctx, member, secret); err != nil {
		return err
	}
	if err := join.RemoveProperties(ctx, member); err != nil {
		return err
	}
	if l.keepImports {
		return nil
	}
	return join.RemoveTraces(ctx, member)
}
