package hub

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/api/crds"
	"github.com/clusterset/clusterset/internal/connect"
	"github.com/clusterset/clusterset/test/kube"
)

// What is wrong is refused where it is written, even by an administrator.
func TestSchema(t *testing.T) {
	hub := kube.Start(t)
	hub.Apply(t, crds.All()...)
	admin, err := connect.NewClient(hub.Config())
	if err != nil {
		t.Fatal(err)
	}
	t.Run("names", func(t *testing.T) { refusesNames(t, admin) })
	t.Run("networks", func(t *testing.T) { refusesNetworks(t, admin) })
}

// refusesNames tries names in communities and exportTo that could be mistaken for something else.
func refusesNames(t *testing.T, admin client.Client) {
	labels := func(n int) (all []string) {
		for i := range n {
			all = append(all, fmt.Sprintf("l%02d", i))
		}
		return all
	}
	for _, tc := range []struct {
		names []string
		want  string // a part of the error, or empty if the names are accepted
	}{
		{[]string{"payments", "edge-asia", "7"}, ""},
		{[]string{strings.Repeat("a", 63)}, ""},
		{labels(64), ""},
		{[]string{""}, "should be at least 1 chars long"},
		{[]string{strings.Repeat("a", 64)}, "Too long"},
		{[]string{"payments", "payments"}, "Duplicate value"},
		{labels(65), "Too many: 65: must have at most 64 items"},
		{[]string{"Payments"}, "should match"},
		{[]string{"*"}, "should match"},
		{[]string{"支付"}, "should match"},
		{[]string{"pаyments"}, "should match"}, // a Cyrillic letter
		{[]string{"../payments"}, "should match"},
		{[]string{"edge.asia"}, "should match"},
		{[]string{"edge-"}, "should match"},
		{[]string{"edge\nasia"}, "should match"},
		{[]string{"a\x1b[31m"}, "should match"},
	} {
		member := &clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "beijing"}, Spec: clustersetv1alpha1.MemberClusterSpec{Communities: tc.names}}
		record := &clustersetv1alpha1.ExportedService{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web.shop"},
			Spec: clustersetv1alpha1.ExportedServiceSpec{
				ServiceNamespace: "shop", ServiceName: "web", Type: mcsv1beta1.Headless, ExportedAt: metav1.Now(), ExportTo: tc.names,
			},
		}
		for field, o := range map[string]client.Object{"spec.communities": member, "spec.exportTo": record} {
			err := admin.Create(t.Context(), o, client.DryRunAll)
			if tc.want == "" && err == nil {
				continue
			}
			if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), field) || tc.want == "" || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%q, %s: %v, want %q", tc.names, field, err, tc.want)
			}
		}
	}
}

// refusesNetworks tries networks: the CustomResourceDefinition takes every one that Validate takes, no other one of IPv4, and none of IPv6 with the
// bits of a host in its last group, or of a network in more groups than it has.
func refusesNetworks(t *testing.T, admin client.Client) {
	networks := strings.Fields(`10.1.0.0/16 10.2.0.1/16 0.0.0.0/0 10.0.0.0/33 10.0.0/8 256.0.0.0/8 1.2.3.4/32 10.01.0.0/16 10.1.0.0/016 10.1.0.0 /8 10.0.0.0/ ..../8
		::/0 fd00::/8 FD00::/8 fd00:1::/48 fd00:1::1/48 fd00:1::1/128 1::/17 fd00:10:96::/112 fd00::10:96/112 1:2:3:4:5:6:7:8/128 1:2:3:4:5:6:7:8/64 fd00::/129`)
	// What the rule doesn't find. The condition Valid does.
	missed := strings.Fields("fd00:::/8 12345::/16 fd00::1::/16 1:2:3:4:5:6:7:8:9/128 1:2:3:4:5:6:7:8/127 1:2:3:4:5:6:7:8::/112 ::::/0 fd00:/16 :fd00::/16")
	networks = append(networks, missed...)
	rng := rand.New(rand.NewPCG(8, 23))
	for range 100 {
		var b [16]byte
		for i := range b {
			b[i] = byte(rng.Uint32()) * byte(rng.IntN(2))
		}
		p := netip.PrefixFrom(netip.AddrFrom4([4]byte(b[:4])), rng.IntN(33))
		six := netip.PrefixFrom(netip.AddrFrom16(b), rng.IntN(129)).Masked()
		networks = append(networks, p.String(), p.Masked().String(), six.String(), fmt.Sprintf("%s/%d", six.Addr().StringExpanded(), six.Bits()))
	}
	refused := 0
	for _, network := range networks {
		m := &clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "lyon"}, Spec: clustersetv1alpha1.MemberClusterSpec{CIDRs: []string{network}}}
		err := admin.Create(t.Context(), m, client.DryRunAll)
		if err != nil && !apierrors.IsInvalid(err) {
			t.Fatal(err)
		}
		if err != nil {
			refused++
		}
		if want := m.Validate(); (err == nil) != (len(want) == 0) && (err != nil || !slices.Contains(missed, network)) {
			t.Errorf("%s: %v, want %v", network, err, want.ToAggregate())
		}
	}
	if refused < 50 || refused > len(networks)-50 {
		t.Errorf("%d of %d refused", refused, len(networks))
	}
}
