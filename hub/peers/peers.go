package peers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/hub"
	"github.com/clusterset/clusterset/hub/access"
	"github.com/clusterset/clusterset/internal/door/store"
)

// settle is how long API servers get to learn of a new grant before the old one is removed.
const settle = 2 * time.Second

// Setup adds the controller to the hub's manager, which is created with hub.CacheOptions. It runs on the leader only.
func Setup(mgr manager.Manager) error {
	// With a cache of its own, because a cache chooses the objects of a kind by one name, and the manager's has chosen others.
	granted, err := cluster.New(mgr.GetConfig(), func(o *cluster.Options) {
		o.HTTPClient, o.Scheme = mgr.GetHTTPClient(), mgr.GetScheme()
		o.MapperProvider = func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return mgr.GetRESTMapper(), nil }
		o.Cache = cache.Options{
			DefaultTransform: cache.TransformStripManagedFields(), NewInformer: store.NewInformer,
			ByObject: map[client.Object]cache.ByObject{
				&rbacv1.RoleBinding{}: {Field: fields.OneTermEqualSelector("metadata.name", api.PeersBinding)},
				&rbacv1.ClusterRole{}: {Field: fields.OneTermEqualSelector("metadata.name", api.MemberPeerRole)},
			},
		}
	})
	if err != nil {
		return fmt.Errorf("set up peers: %w", err)
	}
	if err := mgr.Add(granted); err != nil {
		return fmt.Errorf("set up peers: %w", err)
	}
	r := &reconciler{
		client:  client.WithFieldOwner(mgr.GetClient(), api.FieldManagerHub),
		granted: client.WithFieldOwner(granted.GetClient(), api.FieldManagerHub),
		now:     time.Now,
	}
	return hub.Control(mgr, "clusterset-hub-peers", controller.Options{Reconciler: r}, sources(mgr.GetCache(), granted.GetCache()))
}

// sources returns the objects that decide the rights, and the objects that grant them, so that foreign changes are
// corrected.
func sources(c, granted cache.Cache) []source.Source {
	all := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: "communities"}}} // one key: the rights depend on each other
	})
	return []source.Source{
		source.Kind(c, client.Object(&clustersetv1alpha1.MemberCluster{}), all),
		source.Kind(c, client.Object(&corev1.ServiceAccount{}), all),
		source.Kind(c, client.Object(&rbacv1.ClusterRole{}), all),
		source.Kind(granted, client.Object(&rbacv1.RoleBinding{}), all),
		source.Kind(granted, client.Object(&rbacv1.ClusterRole{}), all),
	}
}

// reconciler maintains the rights of all members. It has one key, and so one worker.
type reconciler struct {
	client  client.Client // reads from the manager's cache
	granted client.Client // reads from the cache that Setup creates
	now     func() time.Time
	wrote   time.Time // the time of the last write
}

// Reconcile implements reconcile.Reconciler.
func (r *reconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	s, err := r.read(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	again, err := r.keep(ctx, s)
	foreign := new(access.ForeignError)
	switch {
	case errors.As(err, &foreign): // whatever else failed is tried again, too
		again = foreignEvery
	case err != nil:
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: again}, r.say(ctx, s, foreign)
}

// foreignEvery is how often the rest is tried again while an object of somebody else's is in the way.
const foreignEvery = 10 * time.Second

// keep writes the rights, and returns after how long to continue; zero: nothing is left to do.
func (r *reconciler) keep(ctx context.Context, s *state) (again time.Duration, err error) {
	settles := func() time.Duration { return max(0, settle-r.now().Sub(r.wrote)) }
	if s.on() {
		if err := r.written(access.Restored(ctx, r.granted, "", access.PeerRole())); err != nil {
			return 0, err
		}
		if err := r.keepBindings(ctx, s, s.bindings()); err != nil {
			return 0, err
		}
		if again := settles(); !s.enforced() && again > 0 {
			return again, nil
		}
		return 0, r.confine(ctx, s, true)
	}
	if s.enforced() {
		if err := r.confine(ctx, s, false); err != nil {
			return 0, err
		}
	}
	// The RoleBindings go once API servers know the ClusterRole's right.
	if again := settles(); len(s.bound) > 0 && again > 0 {
		return again, nil
	}
	return 0, r.keepBindings(ctx, s, nil)
}

// confine removes the right to read records from the ClusterRole of all members, or adds it again.
func (r *reconciler) confine(ctx context.Context, s *state, confined bool) error {
	s.reader = access.ClusterRole()
	return r.written(access.Keep(ctx, r.client, "", s.reader, func() { access.Confine(s.reader, confined) }))
}

// keepBindings writes the RoleBindings of all members, creates those of members with an account, and deletes the others. If one write fails, the
// others still happen.
func (r *reconciler) keepBindings(ctx context.Context, s *state, want map[string]*rbacv1.RoleBinding) error {
	var errs []error
	have := make(map[string]bool, len(s.bound))
	for i := range s.bound {
		is := &s.bound[i]
		have[is.Namespace] = true
		if want[is.Namespace] == nil && access.Ours(is) {
			err := client.IgnoreNotFound(r.client.Delete(ctx, is, client.Preconditions{UID: &is.UID}))
			errs = append(errs, r.written(true, err))
		}
	}
	for namespace, binding := range want {
		of := binding.Labels[api.LabelCluster]
		if !have[namespace] && !s.accounts[of] {
			continue
		}
		err := r.written(access.Restored(ctx, r.granted, of, binding))
		if apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			continue // the member is leaving
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// written remembers when something was last written.
func (r *reconciler) written(wrote bool, err error) error {
	if wrote {
		r.wrote = r.now()
	}
	return err
}

// say sets the condition CommunitiesEnforced of all members, or removes it in a set without communities. Its message depends only on its reason,
// because all members watch MemberClusters.
func (r *reconciler) say(ctx context.Context, s *state, foreign *access.ForeignError) error {
	want := metav1.Condition{Type: clustersetv1alpha1.ConditionCommunitiesEnforced}
	switch {
	case !s.on():
	case foreign.Name != "":
		want.Status, want.Reason = metav1.ConditionFalse, clustersetv1alpha1.ReasonNotOurs
		want.Message = foreign.Error() + ", so communities can't be enforced; delete it"
	case s.enforced():
		want.Status, want.Reason = metav1.ConditionTrue, clustersetv1alpha1.ReasonEnforced
		want.Message = "the cluster can read the exports of the clusters that it shares a community with, and of no others"
	default: // in a moment
		return nil
	}
	var errs []error
	for _, mc := range s.members {
		errs = append(errs, hub.Say(ctx, r.client, mc, want))
	}
	return errors.Join(errs...)
}

// read reads the objects that decide the rights.
func (r *reconciler) read(ctx context.Context) (*state, error) {
	s := &state{members: map[string]*clustersetv1alpha1.MemberCluster{}, accounts: map[string]bool{}, reader: &rbacv1.ClusterRole{}}
	var (
		members  clustersetv1alpha1.MemberClusterList
		accounts corev1.ServiceAccountList
		bound    rbacv1.RoleBindingList
	)
	err := errors.Join(
		r.client.List(ctx, &members, client.UnsafeDisableDeepCopy),
		r.client.List(ctx, &accounts, client.UnsafeDisableDeepCopy),
		r.granted.List(ctx, &bound, client.UnsafeDisableDeepCopy),
		client.IgnoreNotFound(r.client.Get(ctx, client.ObjectKey{Name: api.MemberClusterRole}, s.reader)),
	)
	if err != nil {
		return nil, fmt.Errorf("read members and their rights: %w", err)
	}
	for i := range members.Items {
		if mc := &members.Items[i]; access.IsMember(mc) {
			s.members[mc.Name] = mc
		}
	}
	for i := range accounts.Items {
		if cluster := access.AccountOf(&accounts.Items[i]); cluster != "" {
			s.accounts[cluster] = true
		}
	}
	s.bound = bound.Items
	return s, nil
}
