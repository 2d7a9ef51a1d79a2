package cli

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/join"
	"github.com/clusterset/clusterset/exporter"
	"github.com/clusterset/clusterset/importer"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/internal/beacon"
	"github.com/clusterset/clusterset/internal/connect"
	"github.com/clusterset/clusterset/internal/door/store"
	"github.com/clusterset/clusterset/internal/namespaces"
	"github.com/clusterset/clusterset/internal/nodes"
	"github.com/clusterset/clusterset/internal/schema"
	"github.com/clusterset/clusterset/internal/steer"
	"github.com/clusterset/clusterset/internal/topology"
	"github.com/clusterset/clusterset/internal/version"
	"github.com/clusterset/clusterset/prober"
)

// member is `clusterset member`.
type member struct {
	process
	hubKubeconfig string
	hubSecret     string
	dataPath      string
	prefer        string
	boundary      string

	beaconBind      string
	beaconService   string
	beaconAddresses []string
	beaconLinger    time.Duration
	announcer       prober.Announcer

	recordMemory int // MiB
	exports      exporter.Options
	imports      importer.Options
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
are answered. clusterset join creates the kubeconfig for the hub. With --hub-secret it can also start before join: it waits for the file.`,
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
	flags.StringVar(&m.hubSecret, "hub-secret", "", "`namespace/name` of the Secret in this cluster that the file comes from. A renewed token is saved there (default: nowhere, it ends with this process)")
	flags.StringVar(&m.exports.Cluster, "cluster", "", "this cluster's `name` in the set (default: the one the hub kubeconfig was made for)")
	flags.DurationVar(&m.exports.HeartbeatInterval, "heartbeat-interval", exporter.DefaultHeartbeatInterval, "how often to renew this cluster's Lease on the hub. The hub suspects a cluster after 40s of silence")
	flags.IntVar(&m.exports.Workers, "workers", exporter.DefaultWorkers, "how many services to export in parallel; the chart sets 4")
	flags.IntVar(&m.imports.Concurrency, "import-workers", importer.DefaultConcurrency, "how many services to import in parallel")
	flags.DurationVar(&m.exports.HoldWithdrawals, "hold-withdrawals", exporter.DefaultHoldWithdrawals,
		"how long Services stay exported if more than ten ServiceExports are deleted within half a minute, or their CustomResourceDefinition is; 0: not at all")
	flags.StringSliceVar(&m.exports.IncludeNamespaces, "export-namespaces", nil, "`namespaces` to export from, as names or patterns such as team-* (default: all). ServiceExports elsewhere are refused and report it")
	flags.StringSliceVar(&m.exports.ExcludeNamespaces, "exclude-export-namespaces", namespaces.System, "`namespaces` not to export from; overrides --export-namespaces")
	flags.IntVar(&m.exports.MaxPerNamespace, "max-exports-per-namespace", exporter.DefaultMaxPerNamespace, "how many services of one namespace to export, so that no tenant can use up what the others take from this cluster. ServiceExports beyond it are refused and report it")
	flags.StringVar(&m.dataPath, "data-path", string(desired.DataPathPods),
		"the data `path` of imported ClusterSetIPs: pods (a pod network that all clusters share), clusterips (a service network that is routed between them) or none (DNS only, no ClusterSetIPs)")
	flags.StringVar((*string)(&m.imports.Steer), "steer", string(steer.Auto),
		"`how` service proxies are told which endpoints ClusterSetIPs lead to: hints (each zone its own), labels (for proxies that read no hints) or auto (as what runs here needs when the agent starts)")
	flags.StringVar(&m.prefer, "prefer", topology.FormatPrefer(topology.DefaultPrefer),
		"preferred `tiers` of endpoints behind ClusterSetIPs if a service doesn't say, the most preferred first: cluster, zone and region, or none. Use the DNS servers' value")
	flags.StringVar(&m.boundary, "boundary", "", "`tier` that limits which endpoints ClusterSetIPs lead to if a service doesn't say: cluster, zone or region (default: no limit)")
	flags.StringSliceVar(&m.imports.IncludeNamespaces, "import-namespaces", nil, "`namespaces` to import into, as names or patterns such as team-* (default: all)")
	flags.StringSliceVar(&m.imports.ExcludeNamespaces, "exclude-namespaces", namespaces.System, "`namespaces` not to import into; overrides --import-namespaces")
	flags.BoolVar(&m.imports.CreateNamespaces, "create-namespaces", false, "create namespaces that imported services need (default: import once they exist)")
	flags.IntVar(&m.imports.MaxNamespaces, "max-namespaces", importer.DefaultMaxNamespaces, "how many namespaces --create-namespaces creates for the services of one cluster, so that a stolen token can't fill this cluster. They are never deleted; those that you delete or create yourself don't count")
	flags.IntVar(&m.imports.MaxServices, "max-services", importer.DefaultMaxServices, "how many services to import from one cluster, in the order in which the hub received them, so that a stolen token can't fill this cluster. Use the same value in all members")
	flags.IntVar(&m.recordMemory, "max-record-memory", store.DefaultMaxMemory>>20, "`MiB` of memory that the records of one cluster may take in this agent, so that a stolen token can't use up all. Further records are left out, and an Event says so")
	flags.BoolVar(&m.imports.ExtendEverywhere, "extend-everywhere", false, "extend Services that ask for it ("+api.KeyExtend+") in all namespaces, not only in those with the label "+api.KeyExtend+"="+api.ExtendAllowed)
	flags.BoolVar(&m.imports.SkipGlobalServices, "skip-global-services", false, "write no GlobalServices, for clusters that don't use svc.global, and delete those written before")
	flags.StringVar(&m.beaconBind, "beacon-bind-address", ":9471", "`address` at which other clusters measure whether they can reach this one. It is used only with --beacon-service or --beacon-addresses")
	flags.StringVar(&m.beaconService, "beacon-service", "", "`namespace/name` of a Service with a port "+prober.PortName+" in front of the replicas' --beacon-bind-address. Its ready endpoints and its ClusterIPs are told the other clusters (default: none, this cluster isn't measured)")
	flags.StringSliceVar(&m.beaconAddresses, "beacon-addresses", nil, "`addresses` with ports that lead to --beacon-bind-address, told the other clusters instead: those of a load balancer or a gateway (chart: member.beacon.addresses)")
	flags.DurationVar(&m.beaconLinger, "beacon-linger", 0, "how long to go on answering there after being told to stop. The answers say so, and others look up the next agent's address before they fail to reach this cluster. Its pod's terminationGracePeriodSeconds must be longer")
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
	var err error
	if m.imports.DataPath, err = desired.ParseDataPath(m.dataPath); err != nil {
		return usagef("--data-path: %w", err)
	}
	if err := m.imports.Steer.Check(); err != nil {
		return usagef("--steer: %w", err)
	}
	if m.imports.DataPath == desired.DataPathNone && m.imports.SkipGlobalServices {
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
	for flag, patterns := range map[string][]string{
		"export-namespaces": m.exports.IncludeNamespaces, "exclude-export-namespaces": m.exports.ExcludeNamespaces,
		"import-namespaces": m.imports.IncludeNamespaces, "exclude-namespaces": m.imports.ExcludeNamespaces,
	} {
		if err := namespaces.Check(patterns); err != nil {
			return usagef("--%s: %w", flag, err)
		}
	}
	if m.beaconService != "" {
		if m.announcer.Service, err = parseKey(m.beaconService); err != nil {
			return usagef("--beacon-service: %w", err)
		}
	}
	for _, s := range m.beaconAddresses {
		at, err := netip.ParseAddrPort(s)
		if err != nil || at.Port() == 0 {
			return usagef("--beacon-addresses: %q is no address with a port, such as 192.0.2.7:9471", s)
		}
		m.announcer.Addresses = append(m.announcer.Addresses, at)
	}
	if m.exports.HeartbeatInterval < time.Second {
		return usagef("--heartbeat-interval is %s; it must be at least 1s", m.exports.HeartbeatInterval)
	}
	for flag, is := range map[string]int{
		"max-exports-per-namespace": m.exports.MaxPerNamespace, "max-services": m.imports.MaxServices, "max-namespaces": m.imports.MaxNamespaces,
		"max-record-memory": m.recordMemory, "import-workers": m.imports.Concurrency, "workers": m.exports.Workers,
	} {
		if is < 1 {
			return usagef("--%s is %d; it must be at least 1", flag, is)
		}
	}
	return nil
}

func (m *member) run(ctx context.Context) error {
	config, err := restConfig(m.kubeconfig, "")
	if err != nil {
		return err
	}
	if m.hubSecret != "" { // the file appears once the Secret is there
		if err := m.awaitCredentials(ctx); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return nil //nolint:nilerr // it was told to stop before it had anything to do
		}
	}
	connection, err := connect.Open(m.hubKubeconfig)
	if err != nil {
		return err
	}
	m.exports.Cluster, m.exports.Version = cmp.Or(m.exports.Cluster, connection.Cluster()), version.String()
	if err := m.exports.Validate(); err != nil {
		return usagef("--cluster: %w", err)
	}
	// Before the process is ready, so that a rollout onto a hub that is too old stops and the running agent stays.
	if err := schema.CheckHub(ctx, connection.Config()); err != nil {
		return err
	}
	mgr, err := m.set(config, connection)
	if err != nil {
		return err
	}
	answered := m.serveBeacon(ctx)
	log.Log.Info("Starting member", "cluster", m.exports.Cluster, "version", version.String())
	err = mgr.Start(ctx)
	if err == nil {
		<-answered
	}
	return err
}

// serveBeacon answers other clusters that measure whether they can reach this one, until ctx ends and a little longer. Then the channel is
// closed. If the port is taken the rest of the agent works, and states no beacons: others would else take this cluster for unreachable.
func (m *member) serveBeacon(ctx context.Context) <-chan struct{} {
	ended := make(chan struct{})
	if m.beaconService == "" && len(m.beaconAddresses) == 0 {
		close(ended)
		return ended
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", m.beaconBind)
	if err != nil {
		log.Log.Error(err, "Other clusters can't measure whether they reach this one: can't listen on --beacon-bind-address")
		m.announcer.Service, m.announcer.Addresses = types.NamespacedName{}, nil
		close(ended)
		return ended
	}
	go func() {
		if err := beacon.Serve(ctx, l, m.exports.Cluster, rand.Text()); err != nil {
			log.Log.Error(err, "Other clusters can't measure any more whether they reach this one")
		}
	}()
	go func() {
		defer close(ended)
		<-ctx.Done()
		<-time.After(m.beaconLinger)
		_ = l.Close()
	}()
	return ended
}

func (m *member) set(config *rest.Config, connection *connect.Connection) (manager.Manager, error) {
	scheme := connect.NewScheme()
	if err := importer.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("set up member: %w", err)
	}
	mgr, err := m.newManager(config, api.MemberLeaderLease, scheme, cache.Options{DefaultTransform: desired.Strip})
	if err != nil {
		return nil, err
	}
	hubConfig := connection.Config()
	hubConfig.QPS, hubConfig.UserAgent = -1, config.UserAgent
	m.imports.Cluster, m.imports.RecordMemory = m.exports.Cluster, m.recordMemory<<20
	hub, err := connect.NewHub(hubConfig, importer.StoreOptions(mgr, m.imports))
	if err != nil {
		return nil, fmt.Errorf("set up hub client: %w", err)
	}
	m.announcer.Here = mgr.GetCache()
	avoid := prober.Avoid(mgr.GetCache(), hubConfig.Host, config.Host)
	m.exports.Nodes = nodes.New()
	m.imports.Nodes = m.exports.Nodes
	m.imports.Avoid = func(ctx context.Context) []netip.Addr {
		return append(avoid(ctx), m.imports.Nodes.IPs()...)
	}
	member, err := connect.NewClient(config)
	if err != nil {
		return nil, fmt.Errorf("set up client: %w", err)
	}
	measures := prober.New(prober.Options{
		Cluster: m.exports.Cluster, Services: m.imports.DataPath == desired.DataPathClusterIPs,
		Here: mgr.GetCache(), Live: member, Hub: hub, Avoid: avoid,
	})
	m.imports.Unreachable, m.imports.Reached, m.imports.Moved = measures.Unreachable, measures.Loaded(), measures.Changed()
	m.imports.Facts = &importer.Facts{}
	m.exports.Report = func(ctx context.Context, report *clustersetv1alpha1.MemberReportSpec) {
		m.announcer.Report(ctx, report)
		measures.Report(report)
		m.imports.Facts.Report(ctx, report)
	}
	secret, _ := parseKey(m.hubSecret) // it was checked; without one there is nowhere to save a token
	if _, err := exporter.Setup(mgr, hub, m.exports); err != nil {
		return nil, err
	}
	m.imports.HubRefuses = connection.Refused
	if err := importer.Setup(mgr, hub, m.imports); err != nil {
		return nil, usageError{err} // so far it has only checked its options
	}
	for _, r := range []manager.Runnable{
		manager.RunnableFunc(hub.Store.Start),
		manager.RunnableFunc(func(ctx context.Context) error { return m.imports.Nodes.Watch(ctx, mgr) }),
		measures,
		everywhere(connection.Watch),
		everywhere(func(ctx context.Context) error { return schema.AwaitHub(ctx, connection.Config()) }),
		&connect.Renewer{Connection: connection, Cluster: m.exports.Cluster, Store: connect.SecretStore{Client: member, Key: secret}},
		manager.RunnableFunc(func(ctx context.Context) error {
			if err := join.WriteProperties(ctx, member, m.exports.Cluster, ""); err != nil {
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

func parseKey(s string) (types.NamespacedName, error) {
	namespace, name, ok := strings.Cut(s, "/")
	if !ok || api.CheckLabel(namespace) != nil || len(validation.IsDNS1123Subdomain(name)) > 0 {
		return types.NamespacedName{}, fmt.Errorf("%q isn't of the form namespace/name", s)
	}
	return types.NamespacedName{Namespace: namespace, Name: name}, nil
}

// awaitCredentials waits until `clusterset join` has written the hub's kubeconfig, so that an agent can be installed first. Meanwhile the probes
// succeed and say so: an installation that waits for ready pods would else wait for the join that comes after it (C74).
func (m *member) awaitCredentials(ctx context.Context) error {
	if _, err := os.Stat(m.hubKubeconfig); err == nil {
		return nil
	}
	const waiting = "waiting for credentials for the hub"
	log.Log.Info("Waiting for credentials for the hub; make this cluster a member with clusterset join", "secret", m.hubSecret, "file", m.hubKubeconfig)
	if m.probes != "0" {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", m.probes)
		if err != nil {
			return fmt.Errorf("--health-probe-bind-address: %w", err)
		}
		server := &http.Server{ReadHeaderTimeout: 5 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, waiting+"\n")
		})}
		go func() { _ = server.Serve(l) }()
		defer func() { _ = server.Close() }()
	}
	connect.Await(ctx, m.hubKubeconfig)
	return nil
}
