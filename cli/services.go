package cli

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/cli/objects"
	"github.com/clusterset/clusterset/cli/preview"
	"github.com/clusterset/clusterset/cli/screen"
	"github.com/clusterset/clusterset/cli/services"
	"github.com/clusterset/clusterset/cli/view"
)

// servicesCommand is `clusterset services`.
type servicesCommand struct {
	clusters
	output
	namespace string
	all       bool
	one       types.NamespacedName
}

func newServices() *cobra.Command {
	var s servicesCommand
	cmd := configured(&cobra.Command{
		Use:   "services [NAMESPACE/NAME]",
		Short: "List the services of the set: who exports and imports them, and what is wrong",
		Long: `Lists the services of a namespace, of all with -A, or one: the clusters that export each, how many endpoints (pods) behind these exports are
ready, the clusters that import it, because they may and don't lack its namespace, and its problems as clusterset status has them.

It reads the local cluster: what it exports and has imported. With --hub-kubeconfig or --hub-context it reads the hub as well, which knows all
services, who may import each (communities and export-to), and the current endpoints. clusterset explain shows one name in detail.` + exitHelp,
		Example: `  clusterset services -A --hub-context hub
  clusterset services -n shop --context beijing -o wide
  clusterset services shop/web --hub-context hub`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return s.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	})
	cmd.Args = func(cmd *cobra.Command, args []string) (err error) {
		if len(args) == 0 {
			return nil
		}
		if s.one, err = preview.ParseService(args[0]); err != nil {
			return usageError{err}
		}
		return noArgs(cmd, args[1:])
	}
	flags := cmd.Flags()
	s.clusters.addFlags(flags)
	s.addFlag(cmd, "table", "wide", "json", "yaml")
	flags.StringVarP(&s.namespace, "namespace", "n", "", "`namespace` of the services (default: as for kubectl)")
	flags.BoolVarP(&s.all, "all-namespaces", "A", false, "list the services of all namespaces")
	return cmd
}

func (s *servicesCommand) run(ctx context.Context, stdout, stderr io.Writer) error {
	if s.all && s.namespace != "" {
		return usagef("--namespace and --all-namespaces can't be used together")
	}
	local, hub, err := s.given()
	if err != nil {
		return err
	}
	list, err := servicesOf(ctx, local, hub)
	if err != nil {
		return err
	}
	if s.one.Name != "" {
		if list = slices.DeleteFunc(list, func(o services.Service) bool { return o.Namespace != s.one.Namespace || o.Name != s.one.Name }); len(list) == 0 {
			return fmt.Errorf("no cluster exports or imports %s; clusterset services -A lists all services", s.one)
		}
		s.all = true
	}
	where := "the set"
	if !s.all {
		if s.namespace == "" {
			file, name := s.kubeconfig, s.context
			if !s.hasLocal() {
				file, name = s.hubKubeconfig, s.hubContext
			}
			if s.namespace, err = usualNamespace(file, name); err != nil {
				return err
			}
		}
		where = "namespace " + s.namespace + "; -A lists those of all namespaces"
		list = slices.DeleteFunc(list, func(o services.Service) bool { return o.Namespace != s.namespace })
	}
	if len(list) == 0 && (s.format == "table" || s.wide()) {
		_, err := fmt.Fprintf(stderr, "No services are exported or imported in %s.\n", where)
		return err
	}
	return s.write(stdout, list, func() string { return services.Render(list, screen.Style{Wide: s.wide(), Colours: colours(stdout)}) })
}

// servicesOf lists the services of a cluster and the hub, each of which may be nil. If the cluster is the hub itself, it is read as that too.
func servicesOf(ctx context.Context, local, hub *objects.Cluster) ([]services.Service, error) {
	var imported discoveryv1.EndpointSliceList
	if local != nil {
		if err := local.List(ctx, &imported, client.HasLabels{api.LabelSourceCluster, api.LabelServiceName}); err != nil {
			return nil, local.Words(err)
		}
	}
	facts, err := view.Fetch(ctx, local, hub)
	if err != nil {
		return nil, err
	}
	if facts.Hub != nil && facts.Hub.Err != nil {
		return nil, facts.Hub.Err
	}
	return services.Of(facts, imported.Items, view.Build(facts)), nil
}
