package main

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/exporter"
	"github.com/clusterset/clusterset/importer"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/internal/connect"
	"github.com/clusterset/clusterset/internal/heap"
	"github.com/clusterset/clusterset/internal/hubwatch"
	"github.com/clusterset/clusterset/internal/join"
	"github.com/clusterset/clusterset/internal/namespaces"
	"github.com/clusterset/clusterset/internal/narrow"
	"github.com/clusterset/clusterset/internal/topology"
	"github.com/clusterset/clusterset/internal/version"
)

// member is `clusterset member`.
type member struct {
	process
	hubKubeconfig string
	hubSecret     string
	cluster       string
	dataPath      string
	prefer        string
	boundary      string
	heartbeat     time.Duration
	workers       int

	holdWithdrawals time.Duration
	maxPerNamespace int
	exportFrom      namespaces.Filter
	imports         importer.Options
}

func newMember() *cobra.Command {
	var m member
	cmd := configured(&cobra.Command{
		Use:   "member",
		Short: "Run a member's agent: export, import, send heartbeats",
		Long: `Runs in each member of the set.

It exports the Services that have a ServiceExport, or ` + api.KeyGlobalService + `: "true" as a label or annotation, to the hub;
imports what all members export as ServiceImports, EndpointSlices and GlobalServices; and renews a Lease on the hub every
few seconds, so that the others know that this cluster is alive.

It can start while the hub is down, and connects once it is up. While the hub is down everything stays as it is, and names
are answered. clusterset join creates the kubeconfig for the hub.`,
		Example: `  clusterset member --hub-kubeconfig hub.kubeconfig --cluster beijing
  clusterset member --hub-kubeconfig hub.kubeconfig --data-path clusterips --exclude-namespaces 'kube-*,default'`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := m.complete(); err != nil {
				return err
			}
			if err := m.setUpLogs(cmd.ErrOrStderr()); err != nil {
				return err
			}
			return m.run(cmd.Context())
		},
	})
	flags := cmd.Flags()
	m.addFlags(flags, "this cluster")
	flags.StringVar(&m.hubKubeconfig, "hub-kubeconfig", "", "kubeconfig `file` for the hub (required). It is read again when it changes")
	flags.StringVar(&m.hubSecret, "hub-secret", "", "`namespace/name` of the Secret in this cluster that the file comes from. A renewed token is saved there (default: in the file itself)")
	flags.StringVar(&m.cluster, "cluster", "", "this cluster's `name` in the set (default: the one the hub kubeconfig was made for)")
	flags.DurationVar(&m.heartbeat, "heartbeat-interval", exporter.DefaultHeartbeatInterval, "how often to renew this cluster's Lease on the hub. The hub suspects a cluster after 40s of silence")
	flags.IntVar(&m.workers, "workers", exporter.DefaultWorkers, "how many services to export in parallel")
	flags.IntVar(&m.imports.Concurrency, "import-workers", importer.DefaultConcurrency, "how many services to import in parallel")
	flags.DurationVar(&m.holdWithdrawals, "hold-withdrawals", exporter.DefaultHoldWithdrawals,
		"how long Services stay exported if most ServiceExports are deleted within seconds, or their CustomResourceDefinition is; 0: not at all")
	flags.StringSliceVar(&m.exportFrom.Include, "export-namespaces", nil, "`namespaces` to export from, as names or patterns such as team-* (default: all). ServiceExports elsewhere are refused and report it")
	flags.StringSliceVar(&m.exportFrom.Exclude, "exclude-export-namespaces", namespaces.System, "`namespaces` not to export from; overrides --export-namespaces")
	flags.IntVar(&m.maxPerNamespace, "max-exports-per-namespace", exporter.DefaultMaxPerNamespace, "how many services of one namespace to export, so that no tenant can use up what the others take from this cluster. ServiceExports beyond it are refused and report it")
	flags.StringVar(&m.dataPath, "data-path", string(desired.DataPathPods),
		"where imported ClusterSetIPs lead: `pods` (a pod network that all clusters share), clusterips (a service network that is routed between them) or none (DNS only, no ClusterSetIPs)")
	flags.StringVar(&m.prefer, "prefer", topology.FormatPrefer(topology.DefaultPrefer),
		"preferred `tiers` of endpoints behind ClusterSetIPs if a service doesn't say, the most preferred first: cluster, zone and region, or none. Use the DNS servers' value")
	flags.StringVar(&m.boundary, "boundary", "", "`tier` that limits which endpoints ClusterSetIPs lead to if a service doesn't say: cluster, zone or region (default: no limit)")
	flags.StringSliceVar(&m.imports.IncludeNamespaces, "import-namespaces", nil, "`namespaces` to import into, as names or patterns such as team-* (default: all)")
	flags.StringSliceVar(&m.imports.ExcludeNamespaces, "exclude-namespaces", namespaces.System, "`namespaces` not to import into; overrides --import-namespaces")
	flags.BoolVar(&m.imports.CreateNamespaces, "create-namespaces", false, "create namespaces that imported services need (default: import once they exist)")
	flags.IntVar(&m.imports.MaxNamespaces, "max-namespaces", importer.DefaultMaxNamespaces, "how many namespaces --create-namespaces creates for the services of one cluster, so that a stolen token can't fill this cluster. They are never deleted; those that you delete or create yourself don't count")
	flags.IntVar(&m.imports.MaxServices, "max-services", importer.DefaultMaxServices, "how many services to import from one cluster, in the order in which the hub received them, so that a stolen token can't fill this cluster. Use the same value in all members")
	flags.DurationVar(&m.imports.AwaitRejoin, "await-rejoin", importer.DefaultAwaitRejoin, "how long to keep the exports of clusters that the hub has lost, for example because it was restored from a backup, and that haven't rejoined")
	flags.BoolVar(&m.imports.SkipGlobalServices, "skip-global-services", false, "write no GlobalServices, for clusters that don't use svc.global, and delete those written before")
	return cmd
}

// complete checks what can be checked without the network, so that a wrong value fails at once and not when the hub answers.
func (m *member) complete() error {
	if m.hubKubeconfig == "" {
		return usagef("--hub-kubeconfig is required; clusterset join creates such a file")
	}
	if m.hubSecret != "" {
		if _, err := parseKey(m.hubSecret); err != nil {
			return usagef("--hub-secret: %w", err)
		}
	}
	dataPath, err := desired.ParseDataPath(m.dataPath)
	if err != nil {
		return usagef("--data-path: %w", err)
	}
	m.imports.DataPath = dataPath
	if dataPath == desired.DataPathNone && m.imports.SkipGlobalServices {
		return usagef("--data-path none and --skip-global-services: %w", importer.ErrNoAddresses)
	}
	if m.imports.Policy.Prefer, err = topology.ParsePrefer(m.prefer); err != nil {
		return usagef("--prefer %q: %w", m.prefer, err)
	}
	if m.boundary != "" {
		if m.imports.Policy.Boundary, err = topology.ParseTier(m.boundary); err != nil {
			return usagef("--boundary: %w", err)
		}
	}
	for _, f := range []struct {
		flag     string
		patterns []string
	}{
		{"export-namespaces", m.exportFrom.Include},
		{"exclude-export-namespaces", m.exportFrom.Exclude},
		{"import-namespaces", m.imports.IncludeNamespaces},
		{"exclude-namespaces", m.imports.ExcludeNamespaces},
	} {
		if err := namespaces.Check(f.patterns); err != nil {
			return usagef("--%s: %w", f.flag, err)
		}
	}
	if m.heartbeat < time.Second {
		return usagef("--heartbeat-interval is %s; it must be at least 1s", m.heartbeat)
	}
	if m.maxPerNamespace < 1 {
		return usagef("--max-exports-per-namespace is %d; it must be at least 1", m.maxPerNamespace)
	}
	if m.imports.MaxServices < 1 {
		return usagef("--max-services is %d; it must be at least 1", m.imports.MaxServices)
	}
	if m.imports.MaxNamespaces < 1 {
		return usagef("--max-namespaces is %d; it must be at least 1", m.imports.MaxNamespaces)
	}
	if m.imports.Concurrency < 1 {
		return usagef("--import-workers is %d; it must be at least 1", m.imports.Concurrency)
	}
	if m.workers < 1 {
		return usagef("--workers is %d; it must be at least 1", m.workers)
	}
	return nil
}

func (m *member) run(ctx context.Context) error {
	config, err := restConfig(m.kubeconfig, "")
	if err != nil {
		return err
	}
	connection, err := connect.Open(m.hubKubeconfig)
	if err != nil {
		return err
	}
	if m.cluster == "" {
		m.cluster = connection.Cluster()
	}
	var zones atomic.Pointer[[]string]
	m.imports.Zones = func(of []string) { zones.Store(&of) }
	options := exporter.Options{
		Zones: func() ([]string, bool) {
			if of := zones.Load(); of != nil {
				return *of, true
			}
			return nil, false
		},
		Cluster:           m.cluster,
		HeartbeatInterval: m.heartbeat,
		Workers:           m.workers,
		HoldWithdrawals:   m.holdWithdrawals,
		MaxPerNamespace:   m.maxPerNamespace,
		IncludeNamespaces: m.exportFrom.Include,
		ExcludeNamespaces: m.exportFrom.Exclude,
		Version:           version.String(),
	}
	if err := options.Validate(); err != nil {
		return usagef("--cluster: %w", err)
	}
	mgr, err := m.set(config, connection, options)
	if err != nil {
		return err
	}
	log.Log.Info("Starting member", "cluster", m.cluster, "version", version.String())
	return mgr.Start(ctx)
}

// set sets up the parts of a member.
func (m *member) set(config *rest.Config, connection *connect.Connection, options exporter.Options) (manager.Manager, error) {
	scheme := connect.NewScheme()
	if err := importer.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("set up member: %w", err)
	}
	mgr, err := m.newManager(config, api.MemberLeaderLease, scheme, cache.Options{DefaultTransform: heap.Compact})
	if err != nil {
		return nil, err
	}
	hubConfig := connection.Config()
	hubConfig.QPS, hubConfig.UserAgent = -1, config.UserAgent
	m.imports.Reach = importer.NewReach()
	hubConfig.Wrap(m.imports.Reach.Wrap)
	selection := narrow.NewSelection()
	hubConfig.Wrap(selection.Wrap)
	// Wrap outside the selection: it ends watches while their informers continue, and to hubwatch they must remain the same watches.
	watches := hubwatch.New()
	hubConfig.Wrap(watches.Wrap)
	options.HubBack, options.Relist = watches.Back(), watches.Relist
	hub, err := connect.NewHub(hubConfig)
	if err != nil {
		return nil, fmt.Errorf("set up hub client: %w", err)
	}
	exported, err := exporter.Setup(mgr, hub, options)
	if err != nil {
		return nil, err
	}
	m.imports.Cluster, m.imports.Exported, m.imports.HubWatched, m.imports.Unread = m.cluster, exported, watches.Open, selection.Unread
	if err := importer.Setup(mgr, hub, m.imports); err != nil {
		return nil, usageError{err} // so far it has only checked its options
	}
	if err := importer.Narrow(mgr, hub, m.imports, selection); err != nil {
		return nil, usageError{err}
	}
	member, err := connect.NewClient(config)
	if err != nil {
		return nil, fmt.Errorf("set up client: %w", err)
	}
	for _, r := range []manager.Runnable{
		// Not hub itself: the manager would wait for its caches before starting anything else, and the hub may be down.
		manager.RunnableFunc(hub.Start),
		everywhere(connection.Watch),
		&connect.Renewer{Connection: connection, Cluster: m.cluster, Store: m.store(member)},
		manager.RunnableFunc(func(ctx context.Context) error {
			if err := join.WriteProperties(ctx, member, m.cluster, ""); err != nil {
				log.FromContext(ctx).Info("Can't write this cluster's ClusterProperty; nothing in clusterset depends on it", "reason", err.Error())
			}
			return nil
		}),
	} {
		if err := mgr.Add(r); err != nil {
			return nil, fmt.Errorf("set up member: %w", err)
		}
	}
	return mgr, nil
}

func (m *member) store(member client.Client) connect.Store {
	if key, err := parseKey(m.hubSecret); err == nil {
		return connect.SecretStore{Client: member, Key: key}
	}
	return connect.FileStore(m.hubKubeconfig)
}

// parseKey parses "namespace/name".
func parseKey(s string) (types.NamespacedName, error) {
	namespace, name, ok := strings.Cut(s, "/")
	if !ok || api.CheckLabel(namespace) != nil || len(validation.IsDNS1123Subdomain(name)) > 0 {
		return types.NamespacedName{}, fmt.Errorf("%q is not of the form namespace/name", s)
	}
	return types.NamespacedName{Namespace: namespace, Name: name}, nil
}
