package members

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/hub/access"
)

// ensure creates an object, or corrects an existing one that is ours. It keeps the label that says who created it.
func (r *reconciler) ensure(ctx context.Context, cluster string, o client.Object) error {
	_, err := access.Restored(ctx, r.client, cluster, o)
	if apierrors.IsAlreadyExists(err) && r.live.Get(ctx, client.ObjectKeyFromObject(o), o) == nil && !access.OursFor(o, cluster) {
		return &access.ForeignError{Kind: access.KindOf(r.client, o), Name: access.NameOf(o)} // the cache has only namespaces with our label
	}
	return err
}

// keepReaders keeps the ClusterRoleBinding with which members read the hub, for those that are members by their MemberClusters. They
// share one, because this process's role can be restricted to its name. One for each member would need the right to change any binding
// in the hub's cluster.
func (r *reconciler) keepReaders(ctx context.Context) error {
	var (
		accounts corev1.ServiceAccountList
		all      clustersetv1alpha1.MemberClusterList
	)
	for _, list := range []client.ObjectList{&accounts, &all} {
		if err := r.client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return fmt.Errorf("list %T: %w", list, err)
		}
	}
	return r.ensure(ctx, "", readers(all.Items, accounts.Items))
}

// readers returns the shared binding. Its subjects are the members that haven't left and whose account is ours.
func readers(all []clustersetv1alpha1.MemberCluster, accounts []corev1.ServiceAccount) *rbacv1.ClusterRoleBinding {
	member := make(map[string]bool, len(all))
	for i := range all {
		member[all[i].Name] = access.IsMember(&all[i])
	}
	binding := access.MembersBinding()
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
