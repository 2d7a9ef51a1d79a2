package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/doctor"
	"github.com/clusterset/clusterset/cli/join"
	"github.com/clusterset/clusterset/cli/objects"
	"github.com/clusterset/clusterset/hub/access"
	"github.com/clusterset/clusterset/internal/connect"
)

// joinCommand is `clusterset join`.
type joinCommand struct {
	membership
	installCRDs, dns bool
	options          join.Options
}

// membership is what join and leave have in common: the clusters that they change, and how.
type membership struct {
	clusters
	waiting
	dry
	secretFlag string
	secret     types.NamespacedName
	// hub is the hub, member the member, or nil if the command doesn't change it.
	hub, member *objects.Cluster
}

func (m *membership) addFlags(flags *pflag.FlagSet, kubeconfig, secret, until string) {
	flags.StringVar(&m.hubKubeconfig, "hub-kubeconfig", "", "kubeconfig `file` of an administrator of the hub (it or --hub-context is required)")
	flags.StringVar(&m.hubContext, "hub-context", "", "`context` of that file, or of kubectl's (default: its current one)")
	flags.StringVar(&m.kubeconfig, "kubeconfig", "", "kubeconfig `file` of the member, "+kubeconfig)
	flags.StringVar(&m.context, "context", "", "`context` of that file, or of kubectl's (default: its current one)")
	flags.StringVar(&m.secretFlag, "secret", api.SystemNamespace+"/"+api.HubSecret, "`namespace/name` of "+secret)
	m.addDryRun(flags)
	m.waiting.addFlags(flags, until)
}

// open checks the flags and opens the clusters. It contacts neither yet.
func (m *membership) open() (err error) {
	if m.secret, err = parseKey(m.secretFlag); err != nil {
		return usagef("--secret: %w", err)
	}
	m.clusters.timeout = 30 * time.Second
	if m.hub, err = m.openHub(); err != nil {
		return err
	}
	if m.hub == nil {
		return usagef("--hub-kubeconfig or --hub-context is required: the kubeconfig of an administrator of the hub")
	}
	m.hub.Rights = "use the kubeconfig of an administrator of the hub"
	m.rehearse(m.hub, "On the hub")
	if !m.hasLocal() {
		return nil
	}
	if m.member, err = m.openLocal(); err != nil {
		return err
	}
	m.member.What, m.member.Rights = "member", "use the kubeconfig of an administrator of the member"
	m.rehearse(m.member, "In the member")
	return nil
}

// check checks, before anything is changed, that the hub isn't a member, whose importer would undo the change, and that the member can be reached
// and is the intended one.
func (m *membership) check(ctx context.Context, name string) error {
	if _, err := m.hub.HubMembers(ctx); err != nil && !objects.NotServed(err) { // its kinds may be installed later
		return err
	}
	if m.member == nil {
		return nil
	}
	is, err := join.MemberName(ctx, m.member, m.secret)
	if err != nil {
		return m.member.Words(err)
	}
	if is != "" && is != name {
		return fmt.Errorf("the member at %s is %s, not %s: its Secret %s says so; check %s, or run clusterset leave %[2]s first", m.member.Server, is, name, m.secret, localFlags)
	}
	return nil
}

func written(c *objects.Cluster) join.Server { return join.Server{Config: c.Config, Client: c.Client} }

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
	flags.StringVar(&j.options.Server, "hub-server", "", "`address` of the hub as the member reaches it (default: the one in --hub-kubeconfig)")
	flags.StringVar(&j.options.Spec.Zone, "zone", "", "`zone` of the cluster, for endpoints without their own (default: unknown)")
	flags.StringVar(&j.options.Spec.Region, "region", "", "`region` of the cluster (default: unknown)")
	flags.StringSliceVar(&j.options.Spec.CIDRs, "cidrs", nil, "`networks` of the cluster's pods and Services, for policies (default: any)")
	flags.StringVar(&j.options.Spec.Network, "network", "", "`network` that the cluster is in; between networks only external addresses of Services are used (default: one network)")
	flags.StringSliceVar(&j.options.Spec.ExternalCIDRs, "external-cidrs", nil, "`networks` of the external addresses of the cluster's Services: load balancers, or nodes (default: none are used)")
	flags.StringSliceVar(&j.options.Spec.Communities, "community", nil, "a `community` of the cluster, a DNS label; it imports from clusters with a common community. Repeat it for several (default: the community default)")
	flags.DurationVar(&j.options.TokenLifetime, "token-lifetime", access.DefaultTokenLifetime, "how long the member's token is valid; its agent renews it after half of that")
	flags.BoolVar(&j.options.Rejoin, "rejoin", false, "reuse an existing membership, and give it a new token")
	flags.BoolVar(&j.options.Revoke, "revoke", false, "with --rejoin: revoke all earlier tokens of the member, for example after a theft. Its agent is cut off from the hub until it has the new one; names are still answered")
	flags.BoolVar(&j.installCRDs, "install-crds", false, "install clusterset's CRDs on the hub and, with --kubeconfig, in the member, there also those of the Multi-Cluster Services API if missing")
	flags.BoolVar(&j.dns, "dns", false, "with --kubeconfig: run clusterset dns enable in the member too, with the same --dry-run, --wait and --timeout")
	j.membership.addFlags(flags, "to install the Secret there (default: print the agent's kubeconfig)", "the Secret",
		"the hub has heard the member's agent since, and it is Ready")
	return cmd
}

func (j *joinCommand) run(ctx context.Context, stdout, stderr io.Writer) error {
	if err := j.options.Validate(); err != nil {
		return usageError{err}
	}
	if err := j.open(); err != nil {
		return err
	}
	if err := j.check(ctx, j.options.Cluster); err != nil {
		return err
	}
	if j.dns && j.member == nil {
		return usagef("--dns requires --kubeconfig or --context, of the member")
	}
	err := j.join(ctx, stdout, stderr)
	if err == nil && j.dns {
		d := dnsCommand{waiting: j.waiting, dry: j.dry, doctorCommand: doctorCommand{clusters: j.clusters, zones: doctor.Zones}}
		if err = d.write(ctx, j.member, stdout); err != nil {
			err = fmt.Errorf("%s is a member, but its cluster DNS doesn't answer: %w", j.options.Cluster, err)
		}
	}
	return j.say(stdout, err)
}

func (j *joinCommand) join(ctx context.Context, stdout, stderr io.Writer) (err error) {
	hub, member := j.hub, j.member
	if j.installCRDs {
		if err := join.InstallHubCRDs(ctx, written(hub)); err != nil {
			return hub.Explain(fmt.Errorf("hub: %w", err))
		}
		if member != nil {
			if err := join.InstallMemberCRDs(ctx, written(member)); err != nil {
				return member.Explain(fmt.Errorf("member: %w", err))
			}
		}
	}
	if j.options.Rejoin && member != nil {
		if err := j.options.Recall(ctx, member); err != nil {
			return member.Explain(err)
		}
	}
	before, _ := heartbeat(ctx, hub, j.options.Cluster) // of an earlier membership; join says what is wrong
	kubeconfig, err := join.Join(ctx, written(hub), j.options)
	if err != nil {
		return hub.Explain(err)
	}
	name := j.options.Cluster
	if member == nil {
		if j.dryRun {
			return nil
		}
		if _, err := stdout.Write(kubeconfig); err != nil || !j.wait {
			return err
		}
		return j.heard(ctx, before)
	}
	if err := join.InstallSecret(ctx, member, j.secret, name, kubeconfig); err != nil {
		if j.dryRun {
			return member.Explain(err)
		}
		return fmt.Errorf("%s is a member now, but its agent has no credentials yet: %w (join again with --rejoin)", name, err)
	}
	if err := j.writeProperties(ctx); err != nil {
		_, _ = fmt.Fprintf(stderr, "clusterset: warning: %v\n", err)
	}
	if j.dryRun {
		return nil
	}
	_, err = fmt.Fprintf(stdout, "%s is a member. Its agent finds its credentials%s in Secret %s.\n", name, validUntil(kubeconfig), j.secret)
	if err != nil || !j.wait {
		return err
	}
	if err := j.heard(ctx, before); err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "The hub hears %s, and it is Ready.\n", name)
	return err
}

// validUntil says when the token of an agent's kubeconfig expires, if it does. The hub's API server may have given less than was asked for.
func validUntil(kubeconfig []byte) string {
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil || connect.Expires(config.BearerToken).IsZero() {
		return ""
	}
	return fmt.Sprintf(", valid until %s and renewed before that,", connect.Expires(config.BearerToken).Format(time.DateOnly))
}

// heard waits until the hub has heard a heartbeat other than the one before, and the member is Ready.
func (j *joinCommand) heard(ctx context.Context, before *coordinationv1.Lease) error {
	name := j.options.Cluster
	return j.until(ctx, func(ctx context.Context) (string, error) {
		lease, err := heartbeat(ctx, j.hub, name)
		if err != nil {
			return "", err
		}
		if lease == nil || before != nil && lease.Spec.RenewTime.Equal(before.Spec.RenewTime) {
			return fmt.Sprintf("the hub hasn't heard %s yet; check that its agent runs (clusterset member), and read its log", name), nil
		}
		mc := &clustersetv1alpha1.MemberCluster{}
		if err := j.hub.Get(ctx, client.ObjectKey{Name: name}, mc); err != nil {
			return "", j.hub.Words(err)
		}
		if mc.Status.Phase != clustersetv1alpha1.MemberReady {
			return fmt.Sprintf("the hub hears %s, but its phase is %q, not Ready; check that clusterset hub runs", name, mc.Status.Phase), nil
		}
		return "", nil
	})
}

// writeProperties writes ClusterProperties for other programs.
func (j *joinCommand) writeProperties(ctx context.Context) error {
	set, err := join.SetID(ctx, j.hub)
	if err != nil {
		return err
	}
	return join.WriteProperties(ctx, j.member, j.options.Cluster, set)
}
