package hub_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/api/crds"
	"github.com/clusterset/clusterset/test/kube"
)

// A typo is refused where it is made: the CustomResourceDefinition takes every network that Validate takes, no other one of IPv4, and none of
// IPv6 with the bits of a host in its last group, or of a network in more groups than it has.
func TestNetworksWithHostBitsAreRefused(t *testing.T) {
	plane := kube.Start(t)
	plane.Apply(t, crds.All()...)
	scheme := runtime.NewScheme()
	if err := clustersetv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	admin, err := client.New(plane.Config(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	networks := []string{
		"10.1.0.0/16", "10.2.0.1/16", "0.0.0.0/0", "10.0.0.0/33", "10.0.0/8", "256.0.0.0/8", "1.2.3.4/32", "10.01.0.0/16", "10.1.0.0/016", "10.1.0.0", "/8", "10.0.0.0/", "..../8",
		"::/0", "fd00::/8", "FD00::/8", "fd00:1::/48", "fd00:1::1/48", "fd00:1::1/128", "1::/17", "fd00:10:96::/112", "fd00::10:96/112", "1:2:3:4:5:6:7:8/128", "1:2:3:4:5:6:7:8:9/128",
		"1:2:3:4:5:6:7:8/127", "1:2:3:4:5:6:7:8/64", "fd00::/129", "fd00:::/8", "12345::/16", "fd00::1::/16", "fd00:/16", ":fd00::/16", "1:2:3:4:5:6:7:8::/112", "::::/0",
	}
	rng := rand.New(rand.NewPCG(8, 23))
	for range 100 {
		b := make([]byte, 4)
		for i := range b {
			if rng.IntN(2) == 0 {
				b[i] = byte(rng.Uint32())
			}
		}
		addr, _ := netip.AddrFromSlice(b)
		p := netip.PrefixFrom(addr, rng.IntN(8*len(b)+1))
		b6 := make([]byte, 16)
		for i := range b6 {
			b6[i] = byte(rng.Uint32()) * byte(rng.IntN(2))
		}
		six := netip.PrefixFrom(netip.AddrFrom16([16]byte(b6)), rng.IntN(129)).Masked()
		networks = append(networks, p.String(), p.Masked().String(), six.String(), fmt.Sprintf("%s/%d", six.Addr().StringExpanded(), six.Bits()))
	}
	// What the rule doesn't find. The condition Valid does.
	missed := []string{"fd00:::/8", "12345::/16", "fd00::1::/16", "1:2:3:4:5:6:7:8:9/128", "1:2:3:4:5:6:7:8/127", "fd00::1/7", "fd00::/7", "1:2:3:4:5:6:7:8::/112", "::::/0", "fd00:/16", ":fd00::/16"}
	refused := 0
	for _, network := range networks {
		m := &clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "lyon"}, Spec: clustersetv1alpha1.MemberClusterSpec{CIDRs: []string{network}}}
		err := admin.Create(t.Context(), m, client.DryRunAll)
		if err != nil && !apierrors.IsInvalid(err) {
			t.Fatal(err)
		}
		want := m.Validate()
		missed := err == nil && len(want) > 0 && slices.Contains(missed, network)
		if !missed && (err == nil) != (len(want) == 0) {
			t.Errorf("%s: %v, want %v", network, err, want.ToAggregate())
		}
		if err != nil {
			refused++
		}
	}
	if refused < 50 || refused > len(networks)-50 {
		t.Errorf("%d of %d refused", refused, len(networks))
	}
}
