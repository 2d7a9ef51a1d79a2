package access

import (
	"context"
	"fmt"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

// ForeignError is an object that isn't ours but has the name of one that is needed.
type ForeignError struct{ Kind, Name string }

// Error implements error.
func (e *ForeignError) Error() string {
	return fmt.Sprintf("%s %s exists and isn't clusterset's", e.Kind, e.Name)
}

// Ours reports whether join or the hub process created an object on the hub.
func Ours(o client.Object) bool {
	by := o.GetLabels()[api.LabelManagedBy]
	return by == api.ManagedByJoin || by == api.ManagedByHub
}

// OursFor reports whether an object is Ours, and for this member or for all members.
func OursFor(o client.Object, cluster string) bool {
	of, one := o.GetLabels()[api.LabelCluster]
	return Ours(o) && (!one || of == cluster)
}

// NameOf returns namespace/name, or the name alone for an object without a namespace.
func NameOf(o client.Object) string {
	return strings.TrimPrefix(client.ObjectKeyFromObject(o).String(), "/")
}

// KindOf returns the kind of an object that the client knows.
func KindOf(c client.Client, o client.Object) string {
	kind, _ := c.GroupVersionKindFor(o)
	return kind.Kind
}

// Keep creates an object, or lets mend correct the one of that name if it is OursFor the cluster. The object is then as it is on the hub.
func Keep(ctx context.Context, c client.Client, cluster string, o client.Object, mend func()) (wrote bool, err error) {
	result, err := controllerutil.CreateOrUpdate(ctx, c, o, func() error {
		if o.GetResourceVersion() != "" && !OursFor(o, cluster) {
			return &ForeignError{KindOf(c, o), NameOf(o)}
		}
		mend()
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("write %s %s: %w", KindOf(c, o), NameOf(o), err)
	}
	return result != controllerutil.OperationResultNone, nil
}

// Restored is Keep with Restore.
func Restored(ctx context.Context, c client.Client, cluster string, o client.Object) (wrote bool, err error) {
	want := o.DeepCopyObject().(client.Object) //nolint:forcetypeassert // it is one
	return Keep(ctx, c, cluster, o, func() { Restore(o, want) })
}

// IsMember reports whether a MemberCluster on the hub is a member's, and not that of a cluster that has left, of one of another MCS
// implementation, or a copy that its importer is about to delete.
func IsMember(mc *clustersetv1alpha1.MemberCluster) bool {
	return api.CheckMemberName(mc.Name) == nil && !mc.Left() && mc.Labels[api.LabelManagedBy] != api.ManagedByImporter
}

// AccountOf returns the member of a ServiceAccount, or "" if neither the hub process nor join created it.
func AccountOf(account *corev1.ServiceAccount) string {
	cluster, ok := api.ClusterOfNamespace(account.Namespace)
	if !ok || account.Name != api.MemberServiceAccount || !Ours(account) || account.Labels[api.LabelCluster] != cluster {
		return ""
	}
	return cluster
}

// Heartbeat reads a member's Lease. It returns nil if there is none.
func Heartbeat(ctx context.Context, from client.Reader, cluster string) (*coordinationv1.Lease, error) {
	key := client.ObjectKey{Namespace: api.MemberNamespace(cluster), Name: api.HeartbeatLease}
	lease := &coordinationv1.Lease{}
	switch err := from.Get(ctx, key, lease); {
	case apierrors.IsNotFound(err):
		return nil, nil //nolint:nilnil // that there is none is the answer
	case err != nil:
		return nil, fmt.Errorf("get Lease %s: %w", key, err)
	}
	return lease, nil
}

// Release removes our finalizer from a MemberCluster. Another one may still keep the object.
func Release(ctx context.Context, c client.Client, mc *clustersetv1alpha1.MemberCluster) error {
	released := mc.DeepCopy()
	if !controllerutil.RemoveFinalizer(released, api.MemberFinalizer) {
		return nil
	}
	// The list is replaced as a whole, hence the optimistic lock.
	patch := client.MergeFromWithOptions(mc, client.MergeFromWithOptimisticLock{})
	if err := client.IgnoreNotFound(c.Patch(ctx, released, patch)); err != nil {
		return fmt.Errorf("remove finalizer from MemberCluster %s: %w", mc.Name, err)
	}
	return nil
}
