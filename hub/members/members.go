package members

import (
	"context"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/hub"
	"github.com/clusterset/clusterset/hub/access"
)

// Setup adds the controller to the hub's manager, which is created with hub.CacheOptions. It runs on the leader only. server is the URL at
// which members reach the hub; by default the one that this process uses.
func Setup(mgr manager.Manager, server string) error {
	r := &reconciler{
		client: client.WithFieldOwner(mgr.GetClient(), api.FieldManagerHub), live: mgr.GetAPIReader(),
		config: mgr.GetConfig(), now: time.Now, server: server,
	}
	return hub.Control(mgr, "clusterset-hub-members", controller.Options{Reconciler: r}, sources(mgr.GetCache()))
}

// sources returns the sources of events: MemberClusters and the objects created for them, so that a deleted object is created again. What all
// members share is, at the next heartbeat.
func sources(c cache.Cache) []source.Source {
	return []source.Source{
		source.Kind(c, client.Object(&clustersetv1alpha1.MemberCluster{}), &handler.EnqueueRequestForObject{}),
		source.Kind(c, client.Object(&corev1.ServiceAccount{}), hub.MemberOf(api.MemberServiceAccount)),
		source.Kind(c, client.Object(&rbacv1.Role{}), hub.MemberOf(api.MemberRole)),
		source.Kind(c, client.Object(&rbacv1.RoleBinding{}), hub.MemberOf(api.MemberRole)),
		source.Kind(c, client.Object(&coordinationv1.Lease{}), hub.MemberOf(api.HeartbeatLease)),
	}
}

// reconciler reconciles one MemberCluster at a time. It has one worker, because all members share a binding.
type reconciler struct {
	client client.Client // reads from the cache
	live   client.Reader // reads from the API server
	config *rest.Config
	server string
	now    func() time.Time
}

// Reconcile implements reconcile.Reconciler. The request names a MemberCluster.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	cluster := req.Name
	mc := &clustersetv1alpha1.MemberCluster{}
	switch err := r.client.Get(ctx, client.ObjectKey{Name: cluster}, mc); {
	case apierrors.IsNotFound(err) || err == nil && mc.Left():
		return reconcile.Result{}, r.keepReaders(ctx)
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("get MemberCluster %s: %w", cluster, err)
	case !access.IsMember(mc) || mc.DeletionTimestamp != nil: // package hub makes one that is deleted say that it has left, unless its kind goes
		return reconcile.Result{}, nil
	}
	joined := metav1.Condition{Type: clustersetv1alpha1.ConditionJoined, Status: metav1.ConditionFalse, Reason: clustersetv1alpha1.ReasonNotOurs}
	account, err := r.makeMember(ctx, mc)
	foreign := new(access.ForeignError)
	if errors.As(err, &foreign) {
		joined.Message = foreign.Error() + ", so the cluster gets no account; delete it, or choose another name for the cluster"
		return reconcile.Result{}, hub.Say(ctx, r.client, mc, joined)
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	waits, again, err := r.handOver(ctx, cluster, account)
	if err != nil {
		return reconcile.Result{}, err
	}
	joined.Status, joined.Reason, joined.Message = metav1.ConditionTrue, clustersetv1alpha1.ReasonCredentialsTaken, "the cluster has its rights on the hub"
	if waits {
		joined.Reason = clustersetv1alpha1.ReasonCredentialsWait
		joined.Message = fmt.Sprintf("Secret %s/%s holds the kubeconfig for the cluster's agent until its first heartbeat", api.MemberNamespace(cluster), api.HubSecret)
	}
	return reconcile.Result{RequeueAfter: again}, hub.Say(ctx, r.client, mc, joined)
}

// makeMember creates what join would create, and returns the account.
func (r *reconciler) makeMember(ctx context.Context, mc *clustersetv1alpha1.MemberCluster) (*corev1.ServiceAccount, error) {
	var account *corev1.ServiceAccount
	for _, o := range access.Objects(mc.Name, api.ManagedByHub) {
		if err := r.ensure(ctx, mc.Name, o); err != nil {
			return nil, err
		}
		if a, ok := o.(*corev1.ServiceAccount); ok {
			account = a
		}
	}
	// Add the finalizer only now. When the MemberCluster is deleted, its account is deleted too, and it must not be a foreign one.
	if !controllerutil.ContainsFinalizer(mc, api.MemberFinalizer) {
		held := mc.DeepCopy()
		controllerutil.AddFinalizer(held, api.MemberFinalizer)
		patch := client.MergeFromWithOptions(mc, client.MergeFromWithOptimisticLock{})
		if err := r.client.Patch(ctx, held, patch); err != nil {
			return nil, fmt.Errorf("add finalizer to MemberCluster %s: %w", mc.Name, err)
		}
		held.DeepCopyInto(mc)
	}
	return account, r.keepReaders(ctx)
}
