package exporter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/connect"
	"github.com/clusterset/clusterset/internal/namespaces"
	"github.com/clusterset/clusterset/internal/nodes"
)

// Options configure the exporter. Cluster is required; every other zero value means its default.
type Options struct {
	// Cluster is the member's name, as the hub knows it.
	Cluster string

	// HeartbeatInterval is how often the Lease on the hub is renewed. Default: 10 s.
	HeartbeatInterval time.Duration

	// Workers is how many services are reconciled in parallel. Most of a reconcile is waiting for the hub. Default: 8.
	Workers int

	// IncludeNamespaces are the namespaces to export from, as names or patterns with *, ? and [a-z]. A ServiceExport elsewhere
	// is refused. Default: all.
	IncludeNamespaces []string

	// ExcludeNamespaces are those to leave out, in the same form. They take precedence over IncludeNamespaces. Default if nil:
	// namespaces.System.
	ExcludeNamespaces []string

	// Version of this program, for this cluster's report on the hub.
	Version string

	// HoldWithdrawals is how long Services stay exported if their ServiceExports were deleted together with many others, or with
	// their kind. 0 means not at all. See withdrawalGuard.
	HoldWithdrawals time.Duration

	// MaxPerNamespace is how many services of one namespace are exported. Default: DefaultMaxPerNamespace.
	MaxPerNamespace int

	// ReplaceFor is how long a Service or ServiceExport may be missing before its record is withdrawn. Default: DefaultReplaceFor.
	ReplaceFor time.Duration

	// Nodes are this cluster's nodes: their zones are in the report, and their addresses are those of node ports. The caller watches them. Nil
	// means that they never are known.
	Nodes *nodes.Nodes

	// Report fills in what else this cluster says about itself. Nil means nothing.
	Report func(context.Context, *clustersetv1alpha1.MemberReportSpec)
}

// Defaults of Options.
const (
	DefaultHeartbeatInterval = 10 * time.Second
	DefaultWorkers           = 8

	// DefaultMaxPerNamespace is a fifth of what the hub and the other members take from one cluster by default (importer.DefaultMaxServices),
	// so that no namespace crowds out the others. Namespaces with as many Services of their own are rare.
	DefaultMaxPerNamespace = 1000

	// DefaultReplaceFor is enough to delete and recreate an object (`kubectl replace --force`, `helm --force`), which takes less than a
	// second, or a few if webhooks are slow. A real deletion costs clients little more than the DNS servers' TTL, which is as long.
	DefaultReplaceFor = 5 * time.Second
)

// Validate returns what is wrong with the options, for the person who set them.
func (o Options) Validate() error { return o.complete() }

func (o *Options) complete() error {
	if err := api.CheckMemberName(o.Cluster); err != nil {
		return fmt.Errorf("cluster name %q %w", o.Cluster, err)
	}
	o.HeartbeatInterval = cmp.Or(o.HeartbeatInterval, DefaultHeartbeatInterval)
	if o.HeartbeatInterval < time.Second {
		return fmt.Errorf("heartbeat interval %s must be at least a second", o.HeartbeatInterval)
	}
	if o.MaxPerNamespace = cmp.Or(o.MaxPerNamespace, DefaultMaxPerNamespace); o.MaxPerNamespace < 1 {
		return fmt.Errorf("--max-exports-per-namespace is %d; it must be at least 1", o.MaxPerNamespace)
	}
	o.ReplaceFor = cmp.Or(o.ReplaceFor, DefaultReplaceFor)
	o.Workers = max(cmp.Or(o.Workers, DefaultWorkers), 1)
	if o.ExcludeNamespaces == nil {
		o.ExcludeNamespaces = namespaces.System
	}
	if err := errors.Join(namespaces.Check(o.IncludeNamespaces), namespaces.Check(o.ExcludeNamespaces)); err != nil {
		return err
	}
	o.Version = cmp.Or(o.Version, "unknown")
	if o.Nodes == nil {
		o.Nodes = nodes.New()
	}
	return nil
}

// Setup adds the exporter to the manager of the member's cluster. All of it runs on the leader only.
//
// hub can be shared with the importer, so that both use the same watches. The caller starts its store, before or after, and it may be
// unreachable for any time: see the first pass. The manager's scheme must know both versions of the Multi-Cluster Services API: the
// newest that the member serves is used.
//
// The returned channel is closed when the first export pass is done.
func Setup(mgr manager.Manager, hub *connect.Hub, opts Options) (firstPass <-chan struct{}, err error) {
	if err := opts.complete(); err != nil {
		return nil, err
	}
	registerMetrics()
	name := &claim{
		cluster:  opts.Cluster,
		run:      string(uuid.NewUUID()),
		interval: opts.HeartbeatInterval,
		live:     hub,
		hub:      hub,
		uid:      func(ctx context.Context) string { return clusterUID(ctx, mgr.GetAPIReader()) },
	}
	r, err := newReconciler(mgr, hub, opts, name)
	if err != nil {
		return nil, err
	}
	if err := addController(mgr, hub, opts, r); err != nil {
		return nil, err
	}
	report := &reporter{hub: hub, opts: opts}
	beat := &heartbeat{
		interval: opts.HeartbeatInterval,
		after:    r.pass.finished,
		claim:    name,
		back:     hub.Store.Back(),
		relist:   hub.Store.Relist,
		upToDate: func(ctx context.Context) error {
			report.doubt()
			return r.upToDate(ctx)
		},
		report: report.bringUpToDate,
	}
	for _, run := range []manager.RunnableFunc{
		r.firstPass,
		beat.run,
		r.expire,
		r.names.run,
		func(ctx context.Context) error { return r.visible.watch(ctx, hub.Store, r.reportIn) },
	} {
		if err := mgr.Add(run); err != nil {
			return nil, err
		}
	}
	return r.pass.finished, nil
}

// clusterUID returns the cluster's identity, the UID of its namespace kube-system, or "" if that can't be read: people want to know it.
func clusterUID(ctx context.Context, here client.Reader) string {
	ctx, cancel := context.WithTimeout(ctx, localTimeout)
	defer cancel()
	ns := &corev1.Namespace{}
	_ = here.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, ns)
	return string(ns.UID)
}

func newReconciler(mgr manager.Manager, hub *connect.Hub, opts Options, name *claim) (*reconciler, error) {
	exports, err := newServiceExports(mgr.GetClient())
	if err != nil {
		return nil, err
	}
	if err := addIndex(mgr); err != nil {
		return nil, err
	}
	r := &reconciler{
		cluster:      opts.Cluster,
		from:         namespaces.Filter{Include: opts.IncludeNamespaces, Exclude: opts.ExcludeNamespaces},
		local:        mgr.GetClient(),
		exports:      exports,
		hub:          hub,
		onHub:        hub.Store,
		synced:       func() bool { return name.held() && hub.Store.HasSynced() },
		unheard:      name.unheard,
		events:       mgr.GetEventRecorder("clusterset-exporter"),
		pass:         newPass(),
		perNamespace: opts.MaxPerNamespace,
		visible:      visibility{own: opts.Cluster},
		nodes:        opts.Nodes,
		// A thousand at any speed, then one a second (rule C80 of docs/spec/control-plane.md).
		ofPeers: rate.NewLimiter(rate.Every(time.Second), 1000),
		now:     time.Now,
	}
	name.say = func(ctx context.Context, why *suspended) {
		mc := &clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: opts.Cluster}}
		mc.SetGroupVersionKind(clustersetv1alpha1.GroupVersion.WithKind("MemberCluster"))
		r.events.Eventf(mc, nil, corev1.EventTypeWarning, why.reason, "Claim", "%s", why.message)
		log.FromContext(ctx).Info("Waiting for this cluster's name on the hub: " + why.message)
		r.reportIn(ctx, everywhere)
	}
	opts.Nodes.OnChange(func(ctx context.Context, _ bool) { go r.nodesChanged(ctx) })
	r.names = newResolver(net.DefaultResolver.LookupNetIP, r.pass.send)
	r.withdrawals = newWithdrawalGuard(opts.HoldWithdrawals, opts.ReplaceFor)
	r.withdrawals.served = exports.served
	return r, nil
}

// addController adds the reconciler's controller, with its sources.
func addController(mgr manager.Manager, hub *connect.Hub, opts Options, r *reconciler) error {
	skip := true // several members may run in one process, as in tests
	ctrl, err := controller.New("clusterset-exporter", mgr, controller.Options{
		Reconciler:              r,
		MaxConcurrentReconciles: opts.Workers,
		CacheSyncTimeout:        connect.Forever,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](20*time.Millisecond, maxBackoff),
		SkipNameValidation:      &skip,
	})
	if err != nil {
		return err
	}
	for _, s := range r.sources(mgr.GetCache(), hub.Store) {
		if err := ctrl.Watch(s); err != nil {
			return fmt.Errorf("watch: %w", err)
		}
	}
	return nil
}
