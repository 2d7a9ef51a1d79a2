package importer

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
	"github.com/clusterset/clusterset/internal/connect"
	"github.com/clusterset/clusterset/internal/door/store"
	"github.com/clusterset/clusterset/internal/mcs"
	"github.com/clusterset/clusterset/internal/nodes"
	"github.com/clusterset/clusterset/internal/steer"
)

const (
	// startRetry is how often the start retries an API server that is unreachable or lacks our kinds.
	startRetry = 5 * time.Second
	// reconcileTimeout limits the work on one service.
	reconcileTimeout = 2 * time.Minute
	// hubPatience is how long a start waits for the hub's records before the importer works without it. A hub that answers has been read by then.
	hubPatience = 5 * time.Second
)

// AddToScheme adds every kind that the importer reads or writes. The manager's and the hub's scheme both need it.
func AddToScheme(scheme *runtime.Scheme) error {
	return errors.Join(
		clientgoscheme.AddToScheme(scheme),
		clustersetv1alpha1.AddToScheme(scheme),
		fabedgev1alpha1.AddToScheme(scheme),
		mcs.AddToScheme(scheme),
	)
}

// Setup adds the importer to the local cluster's manager. It runs on the leader only. The caller starts the hub's store, once for all its
// users. The manager's scheme needs AddToScheme. Setup itself contacts neither API server.
//
// The hub may be down: the importer waits for it without a limit and meanwhile changes nothing.
func Setup(mgr manager.Manager, hub *connect.Hub, options Options) error {
	options, err := options.withDefaults()
	if err != nil {
		return err
	}
	registerMetrics()
	if err := mgr.Add(&runnable{mgr: mgr, hub: hub, options: options}); err != nil {
		return fmt.Errorf("add importer to manager: %w", err)
	}
	return nil
}

// runnable waits for both API servers and then runs the two controllers.
type runnable struct {
	mgr     manager.Manager
	hub     *connect.Hub
	options Options
}

// NeedLeaderElection implements manager.LeaderElectionRunnable. Two importers would do no harm, but duplicate all work.
func (i *runnable) NeedLeaderElection() bool { return true }

// Start implements manager.Runnable.
func (i *runnable) Start(ctx context.Context) error {
	log := i.mgr.GetLogger().WithName("importer")
	ctx = logf.IntoContext(ctx, log)
	var version mcs.Version
	retry(ctx, "Waiting for the local API server to serve ServiceImport", func() (err error) {
		version, err = mcs.Served(i.mgr.GetRESTMapper(), mcsv1beta1.ServiceImportKindName)
		return err
	})
	ours := &slicesOf{}
	retry(ctx, "Waiting for this cluster's API server", func() error { return ours.add(ctx, i.mgr.GetCache()) })
	hasGlobals := false
	retry(ctx, "Waiting for this cluster's API server to say whether GlobalService is installed", func() (err error) {
		hasGlobals, err = hasGlobalKind(ctx, i.mgr.GetAPIReader())
		return err
	})
	if !hasGlobals {
		log.Info("GlobalService isn't installed. Everything else is imported; restart the agent once it is installed")
	}
	var steered metav1.Condition
	var distribution *string
	retry(ctx, "Waiting for this cluster's API server to say what reads EndpointSlices here", func() (err error) {
		if distribution, err = steer.Distribution(i.mgr.GetConfig(), i.mgr.GetHTTPClient()); err == nil {
			steered, err = i.options.Steer.Decide(ctx, i.mgr.GetAPIReader())
		}
		return err
	})
	log.Info("Importing begins when all records of the hub are read", "serviceImports", version, "dataPath", i.options.DataPath, "steered", steered.Message)
	if i.options.Reached != nil {
		select {
		case <-ctx.Done():
			return nil
		case <-i.options.Reached:
		}
	}
	writer, err := newBriefWriter(i.mgr.GetClient(), i.mgr.GetConfig(), i.mgr.GetHTTPClient())
	if err != nil {
		return err
	}
	l := &local{cache: i.mgr.GetCache(), slices: ours, live: i.mgr.GetAPIReader(), client: writer, imports: version}
	r := newReconciler(i.options, i.hub.Store, l, i.mgr.GetEventRecorder("clusterset-importer"), clock.RealClock{})
	r.noGlobals, r.labelsOnly, r.distribution = !hasGlobals, steered.Reason == clustersetv1alpha1.ReasonLabels, distribution
	r.report.steered(ctx, copies{l.cache}.Member(i.options.Cluster), steered)
	go reportReach(ctx, l, i.options, i.hub.Store, steered)
	all := make(chan event.GenericEvent, 1)
	awaitNodes(ctx, i.options.Nodes, r.across, func() { reconcileAll(all) })
	if !r.skipGlobal() {
		retry(ctx, "Reading GlobalServices", func() error { return readGlobals(ctx, l, r.memories) })
	}
	return i.run(ctx, r, all)
}

// run reconciles services from when the hub has been read, or hasn't been for a while, and MemberClusters once it has been. An element of all
// enqueues all services.
func (i *runnable) run(ctx context.Context, r *reconciler, all chan event.GenericEvent) error {
	services, err := i.controller("importer", r, i.options.Concurrency, r.sources(i.mgr.GetCache(), all))
	if err != nil {
		return err
	}
	members, err := i.controller("importer-members", &mirror{cluster: i.options.Cluster, hub: i.hub.Store, local: r.local, report: r.report},
		1, memberSources(i.hub.Store, i.mgr.GetCache(), i.options.Cluster))
	if err != nil {
		return err
	}
	patience, cancel := context.WithTimeout(ctx, hubPatience)
	defer cancel()
	alone := !toolscache.WaitForCacheSync(patience.Done(), i.hub.Store.HasSynced)
	if alone {
		logf.FromContext(ctx).Info("The hub's records aren't read yet. Until they are, imported services follow this cluster's own Services and what it can reach, and what others export stays as it is")
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return start(ctx, services) })
	group.Go(func() error {
		if !toolscache.WaitForCacheSync(ctx.Done(), i.hub.Store.HasSynced) {
			return nil
		}
		if alone {
			reconcileAll(all)
		}
		i.options.Facts.begin(i.hub.Store, i.mgr.GetCache(), i.options.importsAll())
		return start(ctx, members)
	})
	return group.Wait()
}

// reconcileAll enqueues all services. If that is due already, it will see the latest state.
func reconcileAll(all chan<- event.GenericEvent) {
	select {
	case all <- event.GenericEvent{Object: &corev1.Node{}}:
	default:
	}
}

// start runs a controller until ctx ends. A controller that is stopped while starting may report that its caches didn't sync. That is no error.
func start(ctx context.Context, c controller.Controller) error {
	if err := c.Start(ctx); ctx.Err() == nil {
		return err
	}
	return nil
}

// controller returns a controller whose workers start once all of its sources have synced.
func (i *runnable) controller(name string, r reconcile.Reconciler, concurrency int, sources []source.Source) (controller.Controller, error) {
	unique := true // one process may run several managers: tests, demos
	options := controller.Options{
		Reconciler:              r,
		MaxConcurrentReconciles: concurrency,
		CacheSyncTimeout:        connect.Forever,
		ReconciliationTimeout:   reconcileTimeout,
		SkipNameValidation:      &unique,
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](
			20*time.Millisecond, i.options.MaxBackoff),
	}
	options.DefaultFromConfig(i.mgr.GetControllerOptions())
	if options.Logger.GetSink() == nil {
		options.Logger = i.mgr.GetLogger()
	}
	c, err := controller.NewUnmanaged(name, options)
	if err != nil {
		return nil, fmt.Errorf("make controller %s: %w", name, err)
	}
	for _, s := range sources {
		if err := c.Watch(s); err != nil {
			return nil, fmt.Errorf("watch %v: %w", s, err)
		}
	}
	return c, nil
}

// nodesTimeout is how long the start waits for the nodes. Names and addresses must work even without the right to read nodes.
const nodesTimeout = 10 * time.Second

// awaitNodes waits until the nodes are known, or for nodesTimeout. From now on it calls moved when they are in other places and, if this cluster
// isn't in the network of all others, also when they have other addresses (D82).
func awaitNodes(ctx context.Context, all *nodes.Nodes, across func() bool, moved func()) {
	var had []netip.Addr
	all.OnChange(func(_ context.Context, elsewhere bool) {
		has := all.IPs()
		others := !slices.Equal(had, has)
		had = has
		if elsewhere || others && across() {
			moved()
		}
	})
	select {
	case <-ctx.Done():
	case <-all.Known():
	case <-time.After(nodesTimeout):
		logf.FromContext(ctx).Info("Can't read this cluster's nodes: the account needs the right to get, list and watch them. " +
			"Until then endpoints behind ClusterSetIPs are ranked from this cluster's location, not from each node's zone")
	}
}

// retry calls f until it succeeds or ctx ends. It logs the reason once, and again whenever it changes.
func retry(ctx context.Context, what string, f func() error) {
	said := ""
	_ = wait.PollUntilContextCancel(ctx, startRetry, true, func(context.Context) (bool, error) {
		err := f()
		if err == nil {
			return true, nil
		}
		if reason := err.Error(); reason != said {
			said = reason
			logf.FromContext(ctx).Info(what, "reason", reason)
		}
		return false, nil
	})
}

// StoreOptions returns the options of the store that Setup uses.
func StoreOptions(mgr manager.Manager, o Options) store.Options {
	o, _ = o.withDefaults()                 // Setup returns what is wrong with them
	leftOutGauge.WithLabelValues(o.Cluster) // so that the metric exists from the start; a cluster's own records are never left out
	return store.Options{
		Cluster: o.Cluster, MaxMemory: o.RecordMemory, MaxServices: o.MaxServices,
		Over: overQuota(mgr.GetLogger(), mgr.GetEventRecorder("clusterset-importer"), o.RecordMemory),
	}
}

// overQuota returns a function that reports that records of a cluster are left out, or no longer are.
func overQuota(log logr.Logger, recorder events.EventRecorder, limit int) func(cluster string, over bool) {
	return func(cluster string, over bool) {
		if !over {
			leftOutGauge.WithLabelValues(cluster).Set(0)
			log.Info("Reading again the records of a cluster that were left out, because it has fewer now", "exporter", cluster)
			return
		}
		leftOutGauge.WithLabelValues(cluster).Set(1)
		log.Info("Left out records of a cluster, because they take more memory here than those of one cluster may", "exporter", cluster, "bytes", limit)
		recorder.Eventf(memberNamed(cluster), nil, corev1.EventTypeWarning, reasonTooMuchMemory, "Import",
			"the records of cluster %s take more than %d MiB here; further ones are left out, and changes that need more. Check whether its token was stolen, or raise --max-record-memory in all members",
			cluster, limit>>20)
	}
}
