package importer

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
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
	"github.com/clusterset/clusterset/importer/effective"
	"github.com/clusterset/clusterset/internal/connect"
	"github.com/clusterset/clusterset/internal/mcs"
)

const (
	// startRetry is how often the start retries an API server that is unreachable or lacks our kinds.
	startRetry = 5 * time.Second
	// reconcileTimeout limits the work on one service.
	reconcileTimeout = 2 * time.Minute
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
	if err := mgr.Add(&importer{mgr: mgr, hub: hub, options: options}); err != nil {
		return fmt.Errorf("add importer to manager: %w", err)
	}
	return nil
}

// importer waits for both API servers and then runs the two controllers.
type importer struct {
	mgr     manager.Manager
	hub     *connect.Hub
	options Options
}

// NeedLeaderElection implements manager.LeaderElectionRunnable. Two importers would do no harm, but duplicate all work.
func (i *importer) NeedLeaderElection() bool { return true }

// Start implements manager.Runnable.
func (i *importer) Start(ctx context.Context) error {
	log := i.mgr.GetLogger().WithName("importer")
	ctx = logf.IntoContext(ctx, log)
	var version mcs.Version
	retry(ctx, "Waiting for the local API server to serve ServiceImport", func() (err error) {
		version, err = mcs.Served(i.mgr.GetRESTMapper(), mcsv1beta1.ServiceImportKindName)
		return err
	})
	hub, slices := i.hub.Store, &slicesOf{}
	retry(ctx, "Waiting for this cluster's API server", func() error { return slices.add(ctx, i.mgr.GetCache()) })
	hasGlobals := false
	retry(ctx, "Waiting for this cluster's API server to say whether GlobalService is installed", func() (err error) {
		hasGlobals, err = hasGlobalKind(ctx, i.mgr.GetAPIReader())
		return err
	})
	if !hasGlobals {
		log.Info("GlobalService isn't installed. Everything else is imported")
	}
	log.Info("Importing begins when all records of the hub are read", "serviceImports", version, "dataPath", i.options.DataPath)

	if i.options.Reached != nil {
		select {
		case <-ctx.Done():
			return nil
		case <-i.options.Reached:
		}
	}
	l := &local{cache: i.mgr.GetCache(), slices: slices, live: i.mgr.GetAPIReader(), client: i.mgr.GetClient(), imports: version}
	go reportReach(ctx, l, i.options, hub)
	report := newReporter(i.mgr.GetEventRecorder("clusterset-importer"), clock.RealClock{})
	places := make(chan event.GenericEvent, 1)
	external := &atomic.Bool{}
	i.awaitNodes(ctx, places, external)
	late := func(cluster string, services int) { lateGauge.WithLabelValues(cluster).Set(float64(services)) }
	late(i.options.Cluster, 0) // so that the metric exists from the start; a cluster's own changes never wait
	reconciler := &reconciler{
		options: i.options, hub: hub, members: hub, absences: &effective.Absences{}, clock: clock.RealClock{}, local: l, report: report,
		clusters: newClusters(clock.RealClock{}), memories: newMemories(), made: newMade(),
		noGlobals: !hasGlobals, external: external,
		accounts: newAccounts(clock.RealClock{}, i.options, nil, late, func(cluster string) { report.late(ctx, cluster) }),
	}
	if hasGlobals && !i.options.SkipGlobalServices {
		retry(ctx, "Reading GlobalServices", func() error { return readGlobals(ctx, l, reconciler.memories) })
	}
	if err := i.awaitHub(ctx, reconciler, places); err != nil || ctx.Err() != nil {
		return err
	}
	i.options.Facts.following.begin(hub, i.mgr.GetCache(), reconciler.keysOf)
	i.options.Facts.namespaces.begin(i.mgr.GetCache(), i.options)
	services, err := i.controller("importer", reconciler, i.options.Concurrency, i.sources(reconciler, places))
	if err != nil {
		return err
	}
	members, err := i.controller("importer-members", &mirror{cluster: i.options.Cluster, hub: hub, local: l, report: report},
		1, memberSources(hub, i.mgr.GetCache(), i.options.Cluster))
	if err != nil {
		return err
	}

	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return run(ctx, services) })
	group.Go(func() error { return run(ctx, members) })
	if !hasGlobals && !i.options.SkipGlobalServices {
		group.Go(func() error { return awaitGlobalKind(ctx, i.mgr.GetAPIReader()) })
	}
	group.Go(func() error {
		reportSynced(ctx, hub.Watched)
		return nil
	})
	return group.Wait()
}

// reportSynced keeps the metric up to date until ctx ends: whether the hub has been read and is still watched.
func reportSynced(ctx context.Context, watched func() bool) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	defer hubSyncedGauge.Set(0)
	for {
		synced := 0.0
		if watched() {
			synced = 1
		}
		hubSyncedGauge.Set(synced)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// run runs a controller until ctx ends. A controller that is stopped while starting may report that its caches didn't sync.
// That is no error, or the agent would exit if the hub comes back just as the importer begins without it.
func run(ctx context.Context, c controller.Controller) error {
	if err := c.Start(ctx); ctx.Err() == nil {
		return err
	}
	return nil
}

// controller returns a controller whose workers start once all of its sources have synced.
func (i *importer) controller(name string, r reconcile.Reconciler, concurrency int, sources []source.Source) (controller.Controller, error) {
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
