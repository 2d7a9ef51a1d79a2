package hub

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

// Say writes a condition of a MemberCluster, or removes it if want has no status. It returns the MemberCluster, or nil if it says that already.
func Say(ctx context.Context, c client.Client, mc *clustersetv1alpha1.MemberCluster, want metav1.Condition) (said *clustersetv1alpha1.MemberCluster, err error) {
	var was metav1.Condition
	if found := meta.FindStatusCondition(mc.Status.Conditions, want.Type); found != nil {
		was = *found
	}
	if was.Status == want.Status && was.Reason == want.Reason && was.Message == want.Message {
		return nil, nil //nolint:nilnil // nothing is to be said
	}
	said, want.ObservedGeneration = mc.DeepCopy(), mc.Generation
	if want.Status == "" {
		meta.RemoveStatusCondition(&said.Status.Conditions, want.Type)
	} else {
		meta.SetStatusCondition(&said.Status.Conditions, want)
	}
	return said, PatchStatus(ctx, c, mc, said)
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
