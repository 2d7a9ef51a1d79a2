package hub

import (
	"cmp"
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/hub/liveness"
	"github.com/clusterset/clusterset/internal/connect"
)

// Options configure the hub. A threshold of zero means its default.
type Options struct {
	liveness.Thresholds
	// MaxServices is how many services a member may have on the hub. Default if zero: DefaultMaxServices.
	MaxServices int
}

// Validate returns what is wrong with the options, for the person who set them.
func (o Options) Validate() error { return o.complete() }

func (o *Options) complete() error {
	usual := liveness.DefaultThresholds
	o.Suspect, o.Expire = cmp.Or(o.Suspect, usual.Suspect), cmp.Or(o.Expire, usual.Expire)
	o.Forget, o.Left = cmp.Or(o.Forget, usual.Forget), cmp.Or(o.Left, usual.Left)
	o.MaxServices = cmp.Or(o.MaxServices, DefaultMaxServices)
	if o.Left < 0 {
		return fmt.Errorf("a cluster that left is kept for %s; that must not be negative", o.Left)
	}
	if o.MaxServices < 0 {
		return fmt.Errorf("--max-services is %d; it must be at least 1", o.MaxServices)
	}
	if o.Suspect <= 0 || o.Expire <= o.Suspect || o.Forget <= o.Expire {
		return fmt.Errorf("--suspect-after is %s, --expire-after %s and --forget-after %s; they must be above 0 and increase in this order", o.Suspect, o.Expire, o.Forget)
	}
	return nil
}

// CacheOptions returns the options that the manager's cache needs. Of the Leases on the hub, where every node of the hub's cluster
// may have one, it keeps only the heartbeats. Of the other kinds it keeps only our own objects. Only package members reads the last
// six kinds.
func CacheOptions() cache.Options {
	return cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&coordinationv1.Lease{}: {Field: fields.OneTermEqualSelector("metadata.name", api.HeartbeatLease)},
			&corev1.ResourceQuota{}: {Field: fields.OneTermEqualSelector("metadata.name", api.RecordsQuota)},
			&corev1.ConfigMap{}:     {Field: fields.OneTermEqualSelector("metadata.name", api.NetworksConfigMap)},

			&corev1.Namespace{}:          {Label: labels.NewSelector().Add(ofMembers)},
			&corev1.ServiceAccount{}:     {Field: fields.OneTermEqualSelector("metadata.name", api.MemberServiceAccount)},
			&rbacv1.Role{}:               {Field: fields.OneTermEqualSelector("metadata.name", api.MemberRole)},
			&rbacv1.RoleBinding{}:        {Field: fields.OneTermEqualSelector("metadata.name", api.MemberRole)},
			&rbacv1.ClusterRole{}:        {Field: fields.OneTermEqualSelector("metadata.name", api.MemberClusterRole)},
			&rbacv1.ClusterRoleBinding{}: {Field: fields.OneTermEqualSelector("metadata.name", api.MembersBinding)},
		},
	}
}

// ofMembers selects the namespaces that join and package members created.
var ofMembers = func() labels.Requirement {
	r, err := labels.NewRequirement(api.LabelCluster, selection.Exists, nil)
	utilruntime.Must(err)
	return *r
}()

// Setup adds the liveness controller to the hub's manager, whose cache needs CacheOptions. It runs on the leader only.
func Setup(mgr manager.Manager, opts Options) error {
	if err := opts.complete(); err != nil {
		return fmt.Errorf("set up hub: %w", err)
	}
	registerMetrics()
	r := &reconciler{
		client:   client.WithFieldOwner(mgr.GetClient(), api.FieldManagerHub),
		live:     mgr.GetAPIReader(),
		events:   mgr.GetEventRecorder("clusterset-hub"),
		now:      time.Now,
		liveness: liveness.New(opts.Thresholds),
		copied:   map[string]time.Time{},
		// Often enough that a threshold is exceeded by an eighth at most, and that Decide notices a pause of its own.
		every:       opts.Suspect / 8,
		keepLeft:    opts.Left,
		maxServices: opts.MaxServices,
	}
	err := Control(mgr, "clusterset-hub", controller.Options{
		Reconciler:              r,
		MaxConcurrentReconciles: 4,
		// controller-runtime's default goes up to a quarter of an hour. A member that died while the API server was down would
		// count as alive for that long.
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](20*time.Millisecond, r.every),
	}, sources(mgr.GetCache()))
	if err != nil {
		return err
	}
	return Control(mgr, "clusterset-hub-cidrs", controller.Options{Reconciler: confiner{r}}, []source.Source{
		source.Kind(mgr.GetCache(), client.Object(&clustersetv1alpha1.MemberCluster{}), &handler.EnqueueRequestForObject{}, predicate.GenerationChangedPredicate{}),
	})
}

// retryConflict is how long a controller waits until its cache has what was written, by itself or by others.
const retryConflict = 200 * time.Millisecond

// Control adds a controller to the hub's manager. Its rights may be granted later, and several hubs may run in one process, as in tests.
func Control(mgr manager.Manager, name string, opts controller.Options, sources []source.Source) error {
	opts.CacheSyncTimeout, opts.SkipNameValidation = connect.Forever, new(true)
	reconciler := opts.Reconciler
	opts.Reconciler = reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
		result, err := reconciler.Reconcile(ctx, req)
		if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
			return reconcile.Result{RequeueAfter: retryConflict}, nil
		}
		return result, err
	})
	ctrl, err := controller.New(name, mgr, opts)
	if err != nil {
		return fmt.Errorf("set up %s: %w", name, err)
	}
	for _, s := range sources {
		if err := ctrl.Watch(s); err != nil {
			return fmt.Errorf("set up %s: watch: %w", name, err)
		}
	}
	return nil
}

// MemberOf enqueues the member in whose namespace an object of that name is.
func MemberOf(name string) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		cluster, ok := api.ClusterOfNamespace(o.GetNamespace())
		if !ok || o.GetName() != name {
			return nil
		}
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: cluster}}}
	})
}

// sources returns the sources that enqueue keys: MemberClusters, their heartbeats and reports.
func sources(c cache.Cache) []source.Source {
	// The number of a member's exports is written with its next change of phase, so these events are not needed; the watch is, for
	// counting.
	exported := &metav1.PartialObjectMetadata{}
	exported.SetGroupVersionKind(clustersetv1alpha1.GroupVersion.WithKind("ExportedService"))
	return []source.Source{
		source.Kind(c, client.Object(&clustersetv1alpha1.MemberCluster{}), &handler.EnqueueRequestForObject{}),
		source.Kind(c, client.Object(&coordinationv1.Lease{}), MemberOf(api.HeartbeatLease)),
		source.Kind(c, client.Object(&clustersetv1alpha1.MemberReport{}), MemberOf(clustersetv1alpha1.MemberReportName)),
		source.Kind(c, client.Object(&corev1.ConfigMap{}), MemberOf(api.NetworksConfigMap)), // not ResourceQuotas, which change with every record
		source.Kind(c, client.Object(exported), handler.Funcs{}),
	}
}
