package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/join"
	"github.com/clusterset/clusterset/cli/objects"
	"github.com/clusterset/clusterset/hub/access"
)

// joinCommand is `clusterset join`.
type joinCommand struct {
	hubKubeconfig, hubContext string
	kubeconfig, context       string
	secret                    string
	set                       string
	installCRDs               bool
	services                  bool // whether --cidrs has the word services
	waiting
	dry
	options join.Options
}

func newJoin() *cobra.Command {
	var j joinCommand
	cmd := configured(&cobra.Command{
		Use:   "join CLUSTER",
		Short: "Make a cluster a member of a hub",
		Long: `Makes a cluster a member of a hub: a MemberCluster, a namespace of its own there, and an account that may write in that
namespace and read what the members export, and nothing else.

The kubeconfig for the member's agent is installed as a Secret in the member, if its own kubeconfig is given with
--kubeconfig, and printed otherwise. It holds a token that expires; the agent renews it.

A name that is in use is refused. clusterset leave undoes it.`,
		Example: `  clusterset join beijing --hub-kubeconfig hub.yaml --kubeconfig beijing.yaml --zone cn-north-1a --region cn-north-1
  clusterset join edge-7 --hub-kubeconfig hub.yaml --region eu-west > edge-7-agent.kubeconfig
  clusterset join beijing --hub-context hub --context beijing`,
		RunE: func(cmd *cobra.Command, args []string) error {
			j.options.Cluster = args[0]
			return j.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	})
	cmd.Args = oneArg("CLUSTER", "the cluster's name in the set, a DNS label such as beijing")
	flags := cmd.Flags()
	flags.StringVar(&j.hubKubeconfig, "hub-kubeconfig", "", "kubeconfig `file` of an administrator of the hub (it or --hub-context is required)")
	flags.StringVar(&j.hubContext, "hub-context", "", "`context` of that file, or of kubectl's (default: its current one)")
	flags.StringVar(&j.options.Server, "hub-server", "", "`address` of the hub as the member reaches it (default: the one in --hub-kubeconfig)")
	flags.StringVar(&j.options.Zone, "zone", "", "`zone` of the cluster, for endpoints without their own (default: unknown)")
	flags.StringVar(&j.options.Region, "region", "", "`region` of the cluster (default: unknown)")
	flags.StringSliceVar(&j.options.CIDRs, "cidrs", nil, "`networks` of the cluster's pods and Services, for policies; the word services stands for those of its ClusterIPs, read from its ServiceCIDRs (Kubernetes 1.33) with --kubeconfig (default: any)")
	flags.StringVar(&j.options.Network, "network", "", "`network` that the cluster is in; between networks only external addresses of Services are used (default: one network)")
	flags.StringSliceVar(&j.options.ExternalCIDRs, "external-cidrs", nil, "`networks` of the external addresses of the cluster's Services: load balancers, or nodes (default: none are used)")
	flags.StringSliceVar(&j.options.Communities, "community", nil, "a `community` of the cluster, a DNS label; it imports from clusters with a common community. Repeat it for several (default: the community default)")
	flags.DurationVar(&j.options.TokenLifetime, "token-lifetime", access.DefaultTokenLifetime, "how long the member's token is valid; its agent renews it after half of that")
	flags.BoolVar(&j.options.Rejoin, "rejoin", false, "reuse an existing membership, and give it a new token")
	flags.BoolVar(&j.options.Revoke, "revoke", false, "with --rejoin: revoke all earlier tokens of the member, for example after a theft. Its agent is cut off from the hub until it has the new one; names are still answered")
	flags.StringVar(&j.kubeconfig, "kubeconfig", "", "kubeconfig `file` of the member, to install the Secret there (default: print the agent's kubeconfig)")
	flags.StringVar(&j.context, "context", "", "`context` of that file, or of kubectl's (default: its current one)")
	flags.StringVar(&j.secret, "secret", api.SystemNamespace+"/"+api.HubSecret, "`namespace/name` of the Secret")
	flags.StringVar(&j.set, "set-name", "", "`name` of the set, for the member's ClusterProperty "+api.ClusterSetProperty+" (default: the UID of the hub's kube-system)")
	flags.BoolVar(&j.installCRDs, "install-crds", false, "install clusterset's CRDs on the hub and, with --kubeconfig, in the member, there also those of the Multi-Cluster Services API if missing")
	j.addDryRun(flags)
	j.waiting.addFlags(flags, "the hub has heard the member's agent since, and it is Ready")
	return cmd
}

func (j *joinCommand) run(ctx context.Context, stdout, stderr io.Writer) error {
	log.SetLogger(logr.Discard()) // everything worth saying is printed
	if j.hubKubeconfig == "" && j.hubContext == "" {
		return usagef("--hub-kubeconfig or --hub-context is required: the kubeconfig of an administrator of the hub")
	}
	if j.services = slices.Contains(j.options.CIDRs, servicesWord); j.services && j.kubeconfig == "" && j.context == "" {
		return usagef("--cidrs %s requires --kubeconfig or --context: the member's ServiceCIDRs are read", servicesWord)
	}
	j.options.CIDRs = slices.DeleteFunc(j.options.CIDRs, func(cidr string) bool { return cidr == servicesWord })
	if err := j.options.Validate(); err != nil {
		return usageError{err}
	}
	if err := j.noWait(j.waiting); err != nil {
		return err
	}
	secret, err := parseKey(j.secret)
	if err != nil {
		return usagef("--secret: %w", err)
	}
	hub, member, err := openBoth(clusters{
		kubeconfig: j.kubeconfig, context: j.context, hubKubeconfig: j.hubKubeconfig, hubContext: j.hubContext,
	})
	if err != nil {
		return err
	}
	j.rehearse(hub.Cluster, "On the hub")
	if member != nil {
		j.rehearse(member.Cluster, "In the member")
		// Before anything is created on the hub: a cluster that can't be reached would become a member without an agent.
		if err := checkMember(ctx, member, secret, j.options.Cluster); err != nil {
			return err
		}
		if err := j.networks(ctx, member, stdout); err != nil {
			return err
		}
	}
	return j.say(stdout, j.join(ctx, hub, member, secret, stdout, stderr))
}

func (j *joinCommand) join(ctx context.Context, hub, member *reached, secret types.NamespacedName, stdout, stderr io.Writer) (err error) {
	if j.installCRDs {
		if err := join.InstallHubCRDs(ctx, hub.writes()); err != nil {
			return hub.Explain(fmt.Errorf("hub: %w", err))
		}
		if member != nil {
			if err := join.InstallMemberCRDs(ctx, member.writes()); err != nil {
				return member.Explain(fmt.Errorf("member: %w", err))
			}
		}
	}
	if j.options.Rejoin && member != nil {
		if j.options.Joined, err = join.PreviouslyJoined(ctx, member, j.options.Cluster); err != nil {
			return member.explain(err)
		}
	}
	before := j.lastHeartbeat(ctx, hub.Cluster)
	kubeconfig, err := join.Join(ctx, hub.writes(), j.options)
	if err != nil {
		return hub.explain(err)
	}
	name := j.options.Cluster
	if member == nil {
		if j.dryRun {
			return nil
		}
		if _, err := stdout.Write(kubeconfig); err != nil || !j.wait {
			return err
		}
		return j.heard(ctx, hub.Cluster, before)
	}
	if err := join.InstallSecret(ctx, member, secret, name, kubeconfig); err != nil {
		if j.dryRun {
			return member.explain(err)
		}
		return fmt.Errorf("%s is a member now, but its agent has no credentials yet: %w (join again with --rejoin)", name, err)
	}
	if err := j.writeProperties(ctx, hub, member); err != nil {
		_, _ = fmt.Fprintf(stderr, "clusterset: warning: %v\n", err)
	}
	if j.dryRun {
		return nil
	}
	_, err = fmt.Fprintf(stdout, "%s is a member. Its agent finds its credentials, valid until %s and renewed before that, in Secret %s.\n",
		name, time.Now().Add(j.options.Lifetime()).Format(time.DateOnly), secret)
	if err != nil || !j.wait {
		return err
	}
	if err := j.heard(ctx, hub.Cluster, before); err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "The hub hears %s, and it is Ready.\n", name)
	return err
}

// lastHeartbeat returns the heartbeat that an earlier membership left, with --wait.
func (j *joinCommand) lastHeartbeat(ctx context.Context, hub *objects.Cluster) *metav1.MicroTime {
	if !j.wait {
		return nil
	}
	lease, err := heartbeat(ctx, hub, j.options.Cluster)
	if err != nil || lease == nil {
		return nil // join says what is wrong
	}
	return lease.Spec.RenewTime
}

// heard waits until the hub has heard a heartbeat other than the one before, and the member is Ready.
func (j *joinCommand) heard(ctx context.Context, hub *objects.Cluster, before *metav1.MicroTime) error {
	name := j.options.Cluster
	return j.until(ctx, func(ctx context.Context) (string, error) {
		lease, err := heartbeat(ctx, hub, name)
		if err != nil {
			return "", err
		}
		if lease == nil || lease.Spec.RenewTime.Equal(before) {
			return fmt.Sprintf("the hub hasn't heard %s yet; check that its agent runs (clusterset member), and read its log", name), nil
		}
		mc := &clustersetv1alpha1.MemberCluster{}
		if err := hub.Get(ctx, client.ObjectKey{Name: name}, mc); err != nil {
			return "", hub.Words(err)
		}
		if mc.Status.Phase != clustersetv1alpha1.MemberReady {
			return fmt.Sprintf("the hub hears %s, but its phase is %q, not Ready; check that clusterset hub runs", name, mc.Status.Phase), nil
		}
		return "", nil
	})
}

// writeProperties writes ClusterProperties for other programs; clusterset doesn't read them.
func (j *joinCommand) writeProperties(ctx context.Context, hub, member *reached) error {
	set := j.set
	if set == "" {
		var err error
		if set, err = join.SetID(ctx, hub); err != nil {
			return err
		}
	}
	return join.WriteProperties(ctx, member, j.options.Cluster, set)
}
