package join

import (
	"context"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/hub/access"
)

// Leave removes a member from the hub: its credentials, its records, its namespace and its MemberCluster, which is deleted but
// stays for a while so that all members see it (api.MemberFinalizer). It works for a cluster that is still running and for one
// that will never return, and can be repeated if interrupted. found reports whether there was its MemberCluster.
//
// The credentials are deleted first, so that an agent that is still running can't rewrite what is being deleted. The records
// are deleted after the leave is announced, so that no member considers them lost. If this ends in between, the hub process does the rest.
func Leave(ctx context.Context, hub Server, cluster string) (found bool, err error) {
	defer func() {
		if err != nil {
			found, err = false, fmt.Errorf("leave %s: %w", cluster, err)
		}
	}()
	c, err := hub.client()
	if err != nil {
		return false, err
	}
	mc := memberCluster(Options{Cluster: cluster})
	if found, err = get(ctx, c, mc); err != nil {
		return false, err
	}
	if err := removeRights(ctx, c, cluster); err != nil {
		return false, err
	}
	if found {
		if err := errors.Join(announce(ctx, c, mc), remove(ctx, c, mc)); err != nil {
			return false, err
		}
	}
	if err := removeRecords(ctx, c, cluster); err != nil {
		return false, err
	}
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: api.MemberNamespace(cluster), Name: api.RecordsQuota}}
	for _, obj := range []client.Object{access.Networks(cluster, &clustersetv1alpha1.MemberClusterSpec{}), quota} {
		if err := remove(ctx, c, obj); err != nil {
			return false, err
		}
	}
	if err := removeIf(ctx, c, access.Namespace(cluster), access.Ours); err != nil {
		return false, err
	}
	return found, awaitNamespaceGone(ctx, c, cluster)
}

// announce makes a MemberCluster say that its cluster has left. One that was created since under its name is another cluster's.
func announce(ctx context.Context, c client.Client, mc *clustersetv1alpha1.MemberCluster) error {
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error { // the hub process writes it too
		var now clustersetv1alpha1.MemberCluster
		switch err := c.Get(ctx, client.ObjectKeyFromObject(mc), &now); {
		case err != nil:
			return err
		case now.UID != mc.UID:
			return errors.New("it was replaced meanwhile")
		case now.Left():
			return nil
		}
		now.SetLeft(time.Now())
		return c.Status().Update(ctx, &now, client.FieldOwner(api.FieldManagerCLI))
	})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("make MemberCluster %s say that it has left: %w", mc.Name, err)
	}
	return nil
}

// removeRights deletes a member's account and what it may do. The roles that all members share stay: without a binding they are nobody's.
func removeRights(ctx context.Context, c client.Client, cluster string) error {
	for _, obj := range []client.Object{
		access.ClusterRoleBinding(cluster), access.RoleBinding(cluster), access.PeersBinding(cluster), access.Role(cluster), access.ServiceAccount(cluster),
	} {
		if err := removeIf(ctx, c, obj, access.Ours); err != nil {
			return err
		}
	}
	return nil
}

// removeRecords deletes a member's records, its report and its heartbeat. We set no finalizers on them; if a member does, they would still be answered
// after it was removed, and nothing else would remove them.
func removeRecords(ctx context.Context, c client.Client, cluster string) error {
	in, free := client.InNamespace(api.MemberNamespace(cluster)), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
	for _, obj := range []client.Object{&clustersetv1alpha1.ExportedService{}, &clustersetv1alpha1.ExportedEndpoints{}, &clustersetv1alpha1.MemberReport{}, &coordinationv1.Lease{}} {
		gvk, err := c.GroupVersionKindFor(obj)
		if err == nil {
			err = c.DeleteAllOf(ctx, obj, in)
		}
		left := &metav1.PartialObjectMetadataList{}
		left.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		if err == nil {
			err = c.List(ctx, left, in)
		}
		if err != nil && !absent(err) { // a hub that doesn't serve our kinds has no objects of them
			return fmt.Errorf("delete all %s in %s: %w", gvk.Kind, in, err)
		}
		for i := range left.Items {
			o := &left.Items[i]
			if o.SetGroupVersionKind(gvk); len(o.Finalizers) == 0 {
				continue
			}
			if err := client.IgnoreNotFound(c.Patch(ctx, o, free, client.FieldOwner(api.FieldManagerCLI))); err != nil {
				return fmt.Errorf("remove finalizers from %s %s: %w", gvk.Kind, access.NameOf(o), err)
			}
		}
	}
	return nil
}

// awaitNamespaceGone waits until the member's namespace is gone, so that the name can be reused.
//
// A bare API server, which is enough for a hub, has no namespace controller that removes the namespace's finalizer. If nobody
// has touched a namespace for a while after its deletion (that controller reports its progress in conditions), we remove the
// finalizer ourselves: everything in it was ours and is deleted.
func awaitNamespaceGone(ctx context.Context, c client.Client, cluster string) error {
	const controllerAnswers, giveUp = 5 * time.Second, time.Minute
	name := api.MemberNamespace(cluster)
	began := time.Now()
	err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, giveUp, true, func(ctx context.Context) (bool, error) {
		var ns corev1.Namespace
		if err := c.Get(ctx, client.ObjectKey{Name: name}, &ns); err != nil {
			return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
		}
		if ns.DeletionTimestamp == nil { // someone has recreated it
			return true, nil
		}
		if len(ns.Status.Conditions) > 0 || time.Since(began) < controllerAnswers {
			return false, nil
		}
		ns.Spec.Finalizers = nil
		err := c.SubResource("finalize").Update(ctx, &ns)
		if apierrors.IsConflict(err) {
			return false, nil
		}
		return false, client.IgnoreNotFound(err)
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		return fmt.Errorf("namespace %s is still being deleted after %s; kubectl describe shows what blocks it", name, giveUp)
	}
	if err != nil {
		return fmt.Errorf("delete Namespace %s: %w", name, err)
	}
	return nil
}
