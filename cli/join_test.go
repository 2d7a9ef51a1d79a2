package cli

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/objects"
	"github.com/clusterset/clusterset/internal/connect"
	"github.com/clusterset/clusterset/test/kube"
)

// join --cidrs services reads the networks of the member's ClusterIPs, and says where each comes from.
func TestJoinReadsServiceNetworks(t *testing.T) {
	planes := kube.StartAll(t, nil, nil)
	hub, member := planes[0], planes[1]
	onHub, err := connect.NewClient(hub.Config())
	if err != nil {
		t.Fatal(err)
	}
	kube.Eventually(t, func() error { // the API server makes its ServiceCIDR a moment after its start
		code, stdout, stderr := cli(t, "join", "--hub-kubeconfig", hub.Kubeconfig(), "--kubeconfig", member.Kubeconfig(), "--install-crds",
			"lyon", "--cidrs", "10.1.0.0/16,services", "--rejoin")
		if want := "The networks of lyon: 10.1.0.0/16 (--cidrs), 10.96.0.0/16 (ServiceCIDR kubernetes).\n"; code != 0 || !strings.HasPrefix(stdout, want) {
			return fmt.Errorf("exit code %d, %s%s", code, stdout, stderr)
		}
		return nil
	})
	mc := &clustersetv1alpha1.MemberCluster{}
	if err := onHub.Get(t.Context(), client.ObjectKey{Name: "lyon"}, mc); err != nil {
		t.Fatal(err)
	}
	if want := []string{"10.1.0.0/16", "10.96.0.0/16"}; !slices.Equal(mc.Spec.CIDRs, want) {
		t.Errorf("spec.cidrs is %q, want %q", mc.Spec.CIDRs, want)
	}
}

// A member of an older Kubernetes is refused before anything is created, with the cure; its networks can be written, as for any other.
func TestJoinWithoutServiceCIDRs(t *testing.T) {
	j := joinCommand{services: true}
	j.member = &objects.Cluster{Client: withoutServiceCIDRs{}, Server: "https://192.0.2.1:6443"}
	var said strings.Builder
	err := j.networks(t.Context(), &said)
	want := "--cidrs services: the API server at https://192.0.2.1:6443 has no ServiceCIDRs, which Kubernetes has since 1.33; " +
		"write the networks of its ClusterIPs instead of services: they are kube-apiserver's --service-cluster-ip-range"
	if err == nil || err.Error() != want || said.Len() > 0 {
		t.Errorf("%v and %q; want %s", err, &said, want)
	}
	j.services = false
	if err := j.networks(t.Context(), &said); err != nil || said.Len() > 0 {
		t.Errorf("without the word services: %v and %q", err, &said)
	}
}

// withoutServiceCIDRs answers as the client of a cluster that doesn't have the kind.
type withoutServiceCIDRs struct{ client.Client }

func (withoutServiceCIDRs) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "networking.k8s.io", Kind: "ServiceCIDR"}}
}

// join says when the token expires that the hub's API server issued, which may be earlier than was asked for.
func TestJoinSaysWhenTheTokenExpires(t *testing.T) {
	expires := time.Date(2026, 3, 1, 12, 0, 0, 0, time.Local)
	claims := fmt.Sprintf(`{"iat": %d, "exp": %d}`, expires.Add(-time.Hour).Unix(), expires.Unix())
	for token, want := range map[string]string{
		"e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln": ", valid until 2026-03-01 and renewed before that,",
		"opaque": "",
	} {
		kubeconfig, err := connect.Kubeconfig(&rest.Config{Host: "https://hub:6443"}, "https://hub:6443", "beijing", token)
		if err != nil {
			t.Fatal(err)
		}
		if got := validUntil(kubeconfig); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
