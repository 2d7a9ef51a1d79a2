package main

import (
	"fmt"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/hub"
	"github.com/clusterset/clusterset/hub/liveness"
	"github.com/clusterset/clusterset/internal/connect"
	"github.com/clusterset/clusterset/internal/hubwatch"
	"github.com/clusterset/clusterset/internal/join"
	"github.com/clusterset/clusterset/internal/version"
)

// hubCommand is `clusterset hub`.
type hubCommand struct {
	process
	options     hub.Options
	installCRDs bool
}

func newHub() *cobra.Command {
	var h hubCommand
	cmd := configured(&cobra.Command{
		Use:   "hub",
		Short: "Watch the members' heartbeats, on the hub",
		Long: `Runs beside the hub's API server, once.

It watches the Lease that each member renews and writes into the member's MemberCluster what it finds: Ready, then Suspect
(its endpoints rank behind healthy ones), then Expired (they are not answered). A member that returns is Ready again at its
next renewal. When more than half of the members fall silent together, none expires: it is more likely the hub that is cut
off.

Nothing depends on this process. While it is down every member stays as it was.`,
		Example: `  clusterset hub --kubeconfig hub-admin.kubeconfig
  clusterset hub --leader-elect --suspect-after 20s --expire-after 2m`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := h.options.Validate(); err != nil {
				return usageError{err}
			}
			if err := h.setUpLogs(cmd.ErrOrStderr()); err != nil {
				return err
			}
			config, err := restConfig(h.kubeconfig, "")
			if err != nil {
				return err
			}
			if h.installCRDs {
				if err := join.InstallHubCRDs(cmd.Context(), config); err != nil {
					return err
				}
			}
			watches := hubwatch.New()
			config.Wrap(watches.Wrap)
			caches := hub.CacheOptions()
			caches.NewInformer = hubwatch.NewInformer
			mgr, err := h.newManager(config, api.HubLeaderLease, connect.NewScheme(), caches)
			if err != nil {
				return err
			}
			if err := mgr.Add(everywhere(watches.AnewWhenBack)); err != nil {
				return fmt.Errorf("set up hub: %w", err)
			}
			if err := hub.Setup(mgr, h.options); err != nil {
				return err
			}
			log.Log.Info("Starting hub", "version", version.String())
			return mgr.Start(cmd.Context())
		},
	})
	flags := cmd.Flags()
	h.addFlags(flags, "the hub")
	flags.DurationVar(&h.options.Suspect, "suspect-after", liveness.DefaultThresholds.Suspect, "how long a member may be silent before others are preferred")
	flags.DurationVar(&h.options.Expire, "expire-after", liveness.DefaultThresholds.Expire, "how long a member may be silent before it is not answered any more")
	flags.DurationVar(&h.options.Forget, "forget-after", liveness.DefaultThresholds.Forget, "how long a member may be silent before what it exported is deleted")
	flags.IntVar(&h.options.MaxServices, "max-services", hub.DefaultMaxServices, "how many services a member may have on the hub; its API server refuses more (ResourceQuota). Agents import as many of one by default")
	flags.BoolVar(&h.installCRDs, "install-crds", false, "install or update our CRDs on the hub at the start")
	return cmd
}
