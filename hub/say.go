package hub

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

// Say writes a condition of a MemberCluster if it changes, or removes it if it has no status.
func Say(ctx context.Context, c client.Client, mc *clustersetv1alpha1.MemberCluster, want metav1.Condition) error {
	said := mc.DeepCopy()
	setCondition(&said.Status, want)
	if equality.Semantic.DeepEqual(said.Status, mc.Status) {
		return nil
	}
	return PatchStatus(ctx, c, mc, said)
}

// PatchStatus writes the status of a MemberCluster. The optimistic lock keeps a process that has just lost its leadership from overwriting
// the new leader's status.
func PatchStatus(ctx context.Context, c client.Client, from, to *clustersetv1alpha1.MemberCluster) error {
	patch := client.MergeFromWithOptions(from, client.MergeFromWithOptimisticLock{})
	if err := c.Status().Patch(ctx, to, patch); err != nil {
		return fmt.Errorf("patch status of MemberCluster %s: %w", from.Name, err)
	}
	return nil
}
