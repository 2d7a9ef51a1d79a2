package join

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ErrNoServiceCIDR is why a cluster can't be asked for the networks of its ClusterIPs: its Kubernetes is older than 1.33.
var ErrNoServiceCIDR = errors.New("no ServiceCIDRs, which Kubernetes has since 1.33")

// StatedNetwork is a network that an object of a cluster states.
type StatedNetwork struct{ CIDR, From string }

// ServiceNetworks returns the networks of a member's ClusterIPs, as its ServiceCIDRs state them. One that is being deleted is among them for
// as long as Services have addresses in it.
func ServiceNetworks(ctx context.Context, member client.Reader) (all []StatedNetwork, err error) {
	var list networkingv1.ServiceCIDRList
	switch err := member.List(ctx, &list); {
	case meta.IsNoMatchError(err) || apierrors.IsNotFound(err):
		return nil, ErrNoServiceCIDR
	case err != nil:
		return nil, fmt.Errorf("list ServiceCIDRs: %w", err)
	}
	slices.SortFunc(list.Items, func(a, b networkingv1.ServiceCIDR) int { return cmp.Compare(a.Name, b.Name) })
	for i := range list.Items {
		for _, cidr := range list.Items[i].Spec.CIDRs {
			all = append(all, StatedNetwork{CIDR: cidr, From: "ServiceCIDR " + list.Items[i].Name})
		}
	}
	return all, nil
}
