package members

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/hub/access"
)

// ensure creates an object, or corrects an existing one that is ours. It keeps the label that says who created it.
func (r *reconciler) ensure(ctx context.Context, cluster string, o client.Object) error {
	want := o.DeepCopyObject().(client.Object)
	_, err := access.Keep(ctx, r.client, cluster, o, func() { access.Restore(o, want) })
	if apierrors.IsAlreadyExists(err) && r.live.Get(ctx, client.ObjectKeyFromObject(o), o) == nil && !access.OursFor(o, cluster) {
		kind, _ := r.client.GroupVersionKindFor(o) // the cache has only namespaces with our label
		return &access.ForeignError{Kind: kind.Kind, Name: access.NameOf(o)}
	}
	return err
}

// keepReaders keeps the ClusterRoleBinding with which members read the hub, for those that are members by their MemberClusters. They
// share one, because this process's role can be restricted to its name. One for each member would need the right to change any binding
// in the hub's cluster.
//
// It is called with each heartbeat. It lists the accounts and MemberClusters only if this cluster is wrongly in the binding or missing
// from it.
func (r *reconciler) keepReaders(ctx context.Context, cluster string, in bool) error {
	r.readers.Lock()
	defer r.readers.Unlock()
	have := &rbacv1.ClusterRoleBinding{}
	err := r.client.Get(ctx, client.ObjectKey{Name: api.MembersBinding}, have)
	if err == nil && access.OursFor(have, "") && slices.Contains(have.Subjects, access.Subjects(cluster)[0]) == in {
		return nil
	}
	var accounts corev1.ServiceAccountList
	if err := r.client.List(ctx, &accounts, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list ServiceAccounts: %w", err)
	}
	var all clustersetv1alpha1.MemberClusterList
	if err := r.client.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list MemberClusters: %w", err)
	}
	want := readers(all.Items, accounts.Items)
	if apierrors.IsNotFound(err) && len(want.Subjects) == 0 {
		return nil
	}
	subjects := want.Subjects
	_, err = access.Keep(ctx, r.client, "", want, func() { want.Subjects = subjects })
	return err
}

// readers returns the shared binding. Its subjects are the members that haven't left and whose account is ours.
func readers(all []clustersetv1alpha1.MemberCluster, accounts []corev1.ServiceAccount) *rbacv1.ClusterRoleBinding {
	member := make(map[string]bool, len(all))
	for i := range all {
		member[all[i].Name] = access.IsMember(&all[i])
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: api.MembersBinding, Labels: map[string]string{api.LabelManagedBy: api.ManagedByHub}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: api.MemberClusterRole},
	}
	var names []string
	for i := range accounts {
		if cluster := access.AccountOf(&accounts[i]); member[cluster] {
			names = append(names, cluster)
		}
	}
	slices.Sort(names)
	for _, cluster := range names {
		binding.Subjects = append(binding.Subjects, access.Subjects(cluster)...)
	}
	return binding
}

// takeAway deletes what package hub doesn't delete when a cluster has left: its Role, and the Secret if the agent didn't use it. The
// empty namespace stays. The names of namespaces differ, so a role for them would allow this process to delete any namespace of the
// hub's cluster.
func (r *reconciler) takeAway(ctx context.Context, cluster string) error {
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: api.MemberNamespace(cluster), Name: api.MemberRole}}
	switch err := r.client.Get(ctx, client.ObjectKeyFromObject(role), role); {
	case apierrors.IsNotFound(err):
		return nil // the Role is deleted last, so nothing else is left
	case err != nil:
		return fmt.Errorf("get Role of %s: %w", cluster, err)
	case !access.OursFor(role, cluster):
		return nil
	}
	if err := r.dropSecret(ctx, cluster); err != nil {
		return err
	}
	if err := client.IgnoreNotFound(r.client.Delete(ctx, role)); err != nil {
		return fmt.Errorf("delete Role of %s: %w", cluster, err)
	}
	return nil
}
