package peers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
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
	// A cache of its own, because a cache chooses the objects of a kind by one name, and the manager's has chosen others.
	granted, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		DefaultTransform: cache.TransformStripManagedFields(), NewInformer: store.NewInformer,
		ByObject: map[client.Object]cache.ByObject{
			&rbacv1.RoleBinding{}: {Field: fields.OneTermEqualSelector("metadata.name", api.PeersBinding)},
			&rbacv1.ClusterRole{}: {Field: fields.OneTermEqualSelector("metadata.name", api.MemberPeerRole)},
		},
	})
	if err != nil {
		return fmt.Errorf("set up peers: %w", err)
	}
	if err := mgr.Add(granted); err != nil {
		return fmt.Errorf("set up peers: %w", err)
	}
	c := client.WithFieldOwner(mgr.GetClient(), api.FieldManagerHub)
	r := &reconciler{client: c, granted: reading{c, granted}, events: mgr.GetEventRecorder("clusterset-hub"), now: time.Now}
	return hub.Control(mgr, "clusterset-hub-peers", controller.Options{Reconciler: r}, sources(mgr.GetCache(), granted))
}

// reading is a client that reads from another cache.
type reading struct {
	client.Client
	from client.Reader
}

// Get implements client.Client.
func (r reading) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	return r.from.Get(ctx, key, o, opts...)
}

// List implements client.Client.
func (r reading) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return r.from.List(ctx, list, opts...)
}

// sources returns the objects that decide the rights, and the objects that grant them, so that foreign changes are
// corrected.
func sources(c, granted cache.Cache) []source.Source {
	all := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: "communities"}}} // one key: the rights depend on each other
	})
	return []source.Source{
		source.Kind(c, client.Object(&clustersetv1alpha1.MemberCluster{}), all, memberChanged()),
		source.Kind(c, client.Object(&corev1.ServiceAccount{}), all),
		source.Kind(c, client.Object(&rbacv1.ClusterRole{}), all),
		source.Kind(granted, client.Object(&rbacv1.RoleBinding{}), all),
		source.Kind(granted, client.Object(&rbacv1.ClusterRole{}), all),
	}
}

// memberChanged passes the changes of a MemberCluster that can change rights or conditions. Each reconcile looks at all members, so
// the rest of a member's status, such as its agent's version, must not cause one.
func memberChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		was, is := e.ObjectOld.(*clustersetv1alpha1.MemberCluster), e.ObjectNew.(*clustersetv1alpha1.MemberCluster)
		said := func(mc *clustersetv1alpha1.MemberCluster) *metav1.Condition {
			return meta.FindStatusCondition(mc.Status.Conditions, clustersetv1alpha1.ConditionCommunitiesEnforced)
		}
		return access.IsMember(was) != access.IsMember(is) || !slices.Equal(was.Spec.Communities, is.Spec.Communities) ||
			was.Status.Phase != is.Status.Phase || !equality.Semantic.DeepEqual(said(was), said(is))
	}}
}

// reconciler maintains the rights of all members. It has one key, and so one worker.
type reconciler struct {
	client  client.Client // reads from the manager's cache
	granted client.Client // reads from the cache that Setup creates
	events  events.EventRecorder
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
	err = besides(err, func(err error) bool { return errors.As(err, &foreign) })
	if err == nil || foreign.Name != "" {
		err = errors.Join(err, r.say(ctx, s, foreign))
	}
	if err != nil && besides(err, func(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }) == nil {
		return reconcile.Result{RequeueAfter: hub.RetryConflict}, nil
	}
	return reconcile.Result{RequeueAfter: again}, err
}

// besides returns the errors that were joined, without some of them.
func besides(err error, leftOut func(error) bool) error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var rest []error
		for _, e := range joined.Unwrap() {
			rest = append(rest, besides(e, leftOut))
		}
		return errors.Join(rest...)
	}
	if err == nil || leftOut(err) {
		return nil
	}
	return err
}

// keep writes the rights, and returns after how long to continue; zero: nothing is left to do.
func (r *reconciler) keep(ctx context.Context, s *state) (again time.Duration, err error) {
	if !s.on() {
		if s.enforced() {
			if err := r.confine(ctx, s, false); err != nil {
				return 0, err
			}
		}
		// The RoleBindings go once API servers know the ClusterRole's right.
		if since := r.now().Sub(r.wrote); len(s.bound) > 0 && since < settle {
			return settle - since, nil
		}
		return 0, r.keepBindings(ctx, s, nil)
	}
	if err := r.keepRole(ctx); err != nil {
		return 0, err
	}
	if err := r.keepBindings(ctx, s, s.bindings()); err != nil {
		return 0, err
	}
	if since := r.now().Sub(r.wrote); !s.enforced() && since < settle {
		return settle - since, nil
	}
	return 0, r.confine(ctx, s, true)
}

// confine removes the right to read records from the ClusterRole of all members, or adds it again.
func (r *reconciler) confine(ctx context.Context, s *state, confined bool) error {
	role := access.ClusterRole()
	wrote, err := access.Keep(ctx, r.client, "", role, func() { access.Confine(role, confined) })
	if err != nil {
		return err
	}
	s.reader = role
	if wrote {
		log.FromContext(ctx).Info("Wrote what all members may read", "communities", confined)
		r.wrote = r.now()
	}
	return nil
}

// keepRole writes the ClusterRole to which the RoleBindings refer.
func (r *reconciler) keepRole(ctx context.Context) error {
	role := peerRole()
	wrote, err := access.Keep(ctx, r.granted, "", role, func() { role.Rules = access.PeerRules() })
	if wrote {
		r.wrote = r.now()
	}
	return err
}

// keepBindings writes the RoleBindings of all members, and creates those of members with an account. If one write fails, the
// others still happen.
func (r *reconciler) keepBindings(ctx context.Context, s *state, want map[string]*rbacv1.RoleBinding) error {
	var errs []error
	have := make(map[string]bool, len(s.bound))
	for i := range s.bound {
		is := &s.bound[i]
		have[is.Namespace] = true
		errs = append(errs, r.keepBinding(ctx, is, want[is.Namespace]))
	}
	for namespace, binding := range want {
		if have[namespace] || !s.accounts[binding.Labels[api.LabelCluster]] {
			continue
		}
		err := r.client.Create(ctx, binding.DeepCopy())
		if apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			continue // the member is leaving
		}
		if err != nil {
			err = fmt.Errorf("create RoleBinding %s/%s: %w", namespace, binding.Name, err)
		}
		r.wrote = r.now()
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// keepBinding updates a RoleBinding. If want is nil, it deletes it; also if it has another RoleRef, which can't be changed: the next
// reconcile creates it anew.
func (r *reconciler) keepBinding(ctx context.Context, is, want *rbacv1.RoleBinding) error {
	switch {
	case !access.Ours(is) && want == nil:
		return nil
	case !access.Ours(is):
		return &access.ForeignError{Kind: "RoleBinding", Name: access.NameOf(is)}
	case want == nil, is.RoleRef != want.RoleRef:
		if err := client.IgnoreNotFound(r.client.Delete(ctx, is, client.Preconditions{UID: &is.UID})); err != nil {
			return fmt.Errorf("delete RoleBinding %s: %w", access.NameOf(is), err)
		}
	case slices.Equal(is.Subjects, want.Subjects):
		return nil
	default:
		changed := is.DeepCopy()
		changed.Subjects = slices.Clone(want.Subjects)
		if err := r.client.Update(ctx, changed); err != nil {
			return fmt.Errorf("update RoleBinding %s: %w", access.NameOf(want), err)
		}
	}
	r.wrote = r.now()
	return nil
}

// read reads the objects that decide the rights.
func (r *reconciler) read(ctx context.Context) (*state, error) {
	s := &state{
		members: map[string]*clustersetv1alpha1.MemberCluster{}, accounts: map[string]bool{}, reader: &rbacv1.ClusterRole{},
	}
	var (
		members  clustersetv1alpha1.MemberClusterList
		accounts corev1.ServiceAccountList
		bound    rbacv1.RoleBindingList
	)
	if err := r.granted.List(ctx, &bound, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list RoleBindings: %w", err)
	}
	s.bound = bound.Items
	for _, list := range []client.ObjectList{&members, &accounts} {
		if err := r.client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("list %T: %w", list, err)
		}
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
	switch err := r.client.Get(ctx, client.ObjectKey{Name: api.MemberClusterRole}, s.reader); {
	case apierrors.IsNotFound(err):
		s.reader = nil
	case err != nil:
		return nil, fmt.Errorf("get ClusterRole %s: %w", api.MemberClusterRole, err)
	}
	return s, nil
}
