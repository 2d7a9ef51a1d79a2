package join

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/hub/access"
)

// Leave removes a member from the hub: its credentials, its records, its namespace and its MemberCluster, which is deleted but
// stays for a while so that all members see it (api.MemberFinalizer). It works for a cluster that is still running and for one
// that will never return, and can be repeated if interrupted. found reports whether there was anything to remove.
//
// The credentials are deleted first, so that an agent that is still running can't rewrite what is being deleted. The records
// are deleted after the leave is announced, so that no member considers them lost.
func Leave(ctx context.Context, hub Server, cluster string) (found bool, err error) {
	if err := api.CheckMemberName(cluster); err != nil {
		return false, fmt.Errorf("leave: cluster name %q %w", cluster, err)
	}
	c, err := hub.client()
	if err != nil {
		return false, fmt.Errorf("leave %s: %w", cluster, err)
	}
	if err := refuseMember(ctx, c, cluster); err != nil {
		return false, fmt.Errorf("leave %s: %w", cluster, err)
	}
	left, err := hasLeft(ctx, c, cluster)
	if err != nil {
		return false, fmt.Errorf("leave %s: %w", cluster, err)
	}
	for _, obj := range []client.Object{
		access.ClusterRoleBinding(cluster), access.RoleBinding(cluster), access.PeersBinding(cluster), access.Role(cluster), access.ServiceAccount(cluster),
	} {
		existed, err := removeOurs(ctx, c, obj)
		if err != nil {
			return false, fmt.Errorf("leave %s: %w", cluster, err)
		}
		found = found || existed
	}
	existed, err := remove(ctx, c, memberCluster(Options{Cluster: cluster}))
	if err != nil {
		return false, fmt.Errorf("leave %s: %w", cluster, err)
	}
	found = found || existed && !left
	in := client.InNamespace(api.MemberNamespace(cluster))
	for _, obj := range []client.Object{&clustersetv1alpha1.ExportedService{}, &clustersetv1alpha1.ExportedEndpoints{}, &coordinationv1.Lease{}} {
		// A hub that doesn't serve our kinds has no objects of them.
		if err := c.DeleteAllOf(ctx, obj, in); err != nil && !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err) {
			return false, fmt.Errorf("leave %s: delete all %s in %s: %w", cluster, kindOf(c, obj), api.MemberNamespace(cluster), err)
		}
	}
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: api.MemberNamespace(cluster), Name: api.RecordsQuota}}
	for _, obj := range []client.Object{access.Networks(cluster, &clustersetv1alpha1.MemberClusterSpec{}), quota} {
		if _, err := remove(ctx, c, obj); err != nil {
			return false, fmt.Errorf("leave %s: %w", cluster, err)
		}
	}
	if err := release(ctx, c, in); err != nil {
		return false, fmt.Errorf("leave %s: %w", cluster, err)
	}
	if existed, err = removeOurs(ctx, c, access.Namespace(cluster)); err != nil {
		return false, fmt.Errorf("leave %s: %w", cluster, err)
	}
	found = found || existed
	if err := removeUnusedClusterRoles(ctx, c); err != nil {
		return false, fmt.Errorf("leave %s: %w", cluster, err)
	}
	if err := awaitNamespaceGone(ctx, c, cluster); err != nil {
		return false, fmt.Errorf("leave %s: %w", cluster, err)
	}
	return found, nil
}

// hasLeft reports whether there is a MemberCluster that already says so.
func hasLeft(ctx context.Context, c client.Client, cluster string) (bool, error) {
	var mc clustersetv1alpha1.MemberCluster
	err := c.Get(ctx, client.ObjectKey{Name: cluster}, &mc)
	switch {
	case apierrors.IsNotFound(err) || meta.IsNoMatchError(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("get MemberCluster %s: %w", cluster, err)
	}
	return mc.Left(), nil
}

// release removes the finalizers from what is left of a member's records. We use none; if a member sets them, it would still be
// answered after it was removed, and nothing else would remove them.
func release(ctx context.Context, c client.Client, in client.InNamespace) error {
	none := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
	for _, list := range []client.ObjectList{
		&clustersetv1alpha1.ExportedServiceList{}, &clustersetv1alpha1.ExportedEndpointsList{}, &coordinationv1.LeaseList{},
	} {
		if err := c.List(ctx, list, in); apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
			continue
		} else if err != nil {
			return fmt.Errorf("list what is left in %s: %w", in, err)
		}
		items, err := meta.ExtractList(list)
		if err != nil {
			return fmt.Errorf("list what is left in %s: %w", in, err)
		}
		for _, item := range items {
			o := item.(client.Object)
			if len(o.GetFinalizers()) == 0 {
				continue
			}
			if err := client.IgnoreNotFound(c.Patch(ctx, o, none, client.FieldOwner(api.FieldManagerCLI))); err != nil {
				return fmt.Errorf("remove finalizers from %s %s: %w", kindOf(c, o), access.NameOf(o), err)
			}
		}
	}
	return nil
}

// removeOurs deletes an object that join or the hub process created, and reports whether there was one. Another owner's object of the
// same name stays.
func removeOurs(ctx context.Context, c client.Client, obj client.Object) (existed bool, err error) {
	have := obj.DeepCopyObject().(client.Object)
	switch err := c.Get(ctx, client.ObjectKeyFromObject(obj), have); {
	case apierrors.IsNotFound(err) || err == nil && !access.Ours(have):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("get %s %s: %w", kindOf(c, obj), access.NameOf(obj), err)
	}
	return remove(ctx, c, have)
}

// remove deletes an object and reports whether it existed.
func remove(ctx context.Context, c client.Client, obj client.Object) (existed bool, err error) {
	err = c.Delete(ctx, obj)
	switch {
	case err == nil:
		return true, nil
	case apierrors.IsNotFound(err) || meta.IsNoMatchError(err):
		return false, nil
	}
	return false, fmt.Errorf("delete %s %s: %w", kindOf(c, obj), access.NameOf(obj), err)
}

// removeUnusedClusterRoles deletes the roles that all members share once no member is bound to them.
func removeUnusedClusterRoles(ctx context.Context, c client.Client) error {
	var bindings rbacv1.ClusterRoleBindingList
	if err := c.List(ctx, &bindings, client.HasLabels{api.LabelManagedBy}); err != nil {
		return fmt.Errorf("list ClusterRoleBindings: %w", err)
	}
	for i := range bindings.Items {
		if b := &bindings.Items[i]; b.RoleRef.Name == api.MemberClusterRole && len(b.Subjects) > 0 {
			return nil
		}
	}
	for _, role := range []client.Object{access.ClusterRole(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: api.MemberPeerRole}}} {
		if _, err := remove(ctx, c, role); err != nil {
			return err
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
