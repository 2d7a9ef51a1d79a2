package join_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"

	"github.com/clusterset/clusterset/cli/join"
	"github.com/clusterset/clusterset/test/kube"
)

// A cluster's ServiceCIDRs say where its ClusterIPs are: the one that the API server makes of its flags, and others. Before Kubernetes 1.33,
// which make test-oldest runs, there are none.
func TestServiceNetworks(t *testing.T) {
	t.Parallel()
	plane := kube.Start(t, kube.WithServiceCIDRs("10.96.0.0/16", "fd00:10:96::/112"))
	c := newClient(t, plane.Config())
	if minor(t, plane) < 33 {
		if all, err := join.ServiceNetworks(t.Context(), c); !errors.Is(err, join.ErrNoServiceCIDR) {
			t.Errorf("%v, %v; want %v", all, err, join.ErrNoServiceCIDR)
		}
		return
	}
	more := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "later"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.97.0.0/24"}}}
	if err := c.Create(t.Context(), more); err != nil {
		t.Fatal(err)
	}
	want := []join.StatedNetwork{
		{CIDR: "10.96.0.0/16", From: "ServiceCIDR kubernetes"},
		{CIDR: "fd00:10:96::/112", From: "ServiceCIDR kubernetes"},
		{CIDR: "10.97.0.0/24", From: "ServiceCIDR later"},
	}
	kube.Eventually(t, func() error { // the API server makes the first one a moment after its start
		all, err := join.ServiceNetworks(t.Context(), c)
		if err != nil || !slices.Equal(all, want) {
			return fmt.Errorf("%v, %w; want %v", all, err, want)
		}
		return nil
	})
}

// minor returns the minor version of an API server.
func minor(t *testing.T, plane *kube.ControlPlane) int {
	t.Helper()
	d, err := discovery.NewDiscoveryClientForConfig(plane.Config())
	if err != nil {
		t.Fatal(err)
	}
	v, err := d.ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(v.Minor)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
