package cli

import (
	"context"
	"fmt"
	"net/url"
	"os"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/cli/join"
	"github.com/clusterset/clusterset/hub"
	"github.com/clusterset/clusterset/hub/liveness"
	"github.com/clusterset/clusterset/hub/members"
	"github.com/clusterset/clusterset/hub/peers"
	"github.com/clusterset/clusterset/internal/connect"
	"github.com/clusterset/clusterset/internal/door/store"
	"github.com/clusterset/clusterset/internal/schema"
	"github.com/clusterset/clusterset/internal/version"
)

// hubCommand is `clusterset hub`.
type hubCommand struct {
	process
	options     hub.Options
	installCRDs bool

	manageMembers bool
	server        string // where members reach the hub
}

func newHub() *cobra.Command {
	var h hubCommand
	cmd := configured(&cobra.Command{
		Use:   "hub",
		Short: "Watch the members' heartbeats, on the hub",
		Long: `Runs once, beside the hub's API server.

It watches the Lease that each member renews and sets the phase of the member's MemberCluster: Ready, then Suspect (its
endpoints rank behind healthy ones), then Expired (they aren't answered). A member that returns is Ready again at its next
renewal. If more than half of the members fall silent together, none expires: more likely the hub is cut off.

If MemberClusters name communities, it maintains the rights by which members read only the exports of members with a common one.

With --manage-members, a MemberCluster alone makes a cluster a member, so that kubectl apply or a GitOps controller can add one.
This needs more rights.

Nothing depends on this process. While it is down, every member stays as it was.`,
		Example: `  clusterset hub --kubeconfig hub-admin.kubeconfig
  clusterset hub --leader-elect --suspect-after 20s --expire-after 2m`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := h.options.Validate(); err != nil {
				return usageError{err}
			}
			if err := h.checkMembers(); err != nil {
				return err
			}
			if err := h.setUpLogs(cmd.ErrOrStderr()); err != nil {
				return err
			}
			config, err := restConfig(h.kubeconfig, "")
			if err != nil {
				return err
			}
			if h.installCRDs {
				if err := join.InstallHubCRDs(cmd.Context(), join.At(config)); err != nil {
					return err
				}
			}
			caches := hub.CacheOptions()
			caches.NewInformer = store.NewInformer
			mgr, err := h.newManager(config, api.HubLeaderLease, connect.NewScheme(), caches)
			if err != nil {
				return err
			}
			if err := mgr.Add(everywhere(func(ctx context.Context) error { return schema.AwaitHub(ctx, config) })); err != nil {
				return fmt.Errorf("set up hub: %w", err)
			}
			if err := hub.Setup(mgr, h.options); err != nil {
				return err
			}
			if err := peers.Setup(mgr); err != nil {
				return err
			}
			if h.manageMembers {
				if err := members.Setup(mgr, h.server); err != nil {
					return err
				}
			}
			log.Log.Info("Starting hub", "version", version.String())
			return mgr.Start(cmd.Context())
		},
	})
	flags := cmd.Flags()
	h.addFlags(flags, "the hub")
	flags.DurationVar(&h.options.Suspect, "suspect-after", liveness.DefaultThresholds.Suspect, "how long a member may be silent before others are preferred")
	flags.DurationVar(&h.options.Expire, "expire-after", liveness.DefaultThresholds.Expire, "how long a member may be silent before it is no longer answered")
	flags.DurationVar(&h.options.Forget, "forget-after", liveness.DefaultThresholds.Forget, "how long a member may be silent before its exports are deleted")
	flags.IntVar(&h.options.MaxServices, "max-services", hub.DefaultMaxServices, "how many services a member may have on the hub; its API server refuses more (ResourceQuota). By default, agents import as many from one cluster")
	flags.BoolVar(&h.manageMembers, "manage-members", false, "make every cluster with a MemberCluster a member, without clusterset join: create its namespace, its account, and a Secret with its agent's kubeconfig, which is deleted at the first heartbeat")
	flags.StringVar(&h.server, "hub-server", "", "with --manage-members: `address` of the hub as members reach it (default: the one in --kubeconfig; in a pod it is required)")
	flags.BoolVar(&h.installCRDs, "install-crds", false, "install or update clusterset's CRDs on the hub at the start")
	return cmd
}

func (h *hubCommand) checkMembers() error {
	switch u, err := url.Parse(h.server); {
	case h.server != "" && (err != nil || u.Scheme != "https" || u.Host == ""):
		return usagef("--hub-server is %q; want a URL such as https://hub.example.com:6443", h.server)
	case h.server == "" && h.manageMembers && h.kubeconfig == "" && os.Getenv("KUBERNETES_SERVICE_HOST") != "":
		return usagef("--hub-server is required with --manage-members in a pod: the URL at which members reach the hub, such as https://hub.example.com:6443")
	}
	return nil
}
