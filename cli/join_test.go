package cli

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/clusterset/clusterset/cli/join"
	"github.com/clusterset/clusterset/cli/objects"
	"github.com/clusterset/clusterset/internal/connect"
)

// join --cidrs services reads the networks of the member's ClusterIPs, and says where each comes from. A member of an older Kubernetes is refused
// before anything is created, with the cure; its networks can be written, as for any other.
func TestJoinReadsServiceNetworks(t *testing.T) {
	its := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.96.0.0/16"}}}
	there := fake.NewClientBuilder().WithScheme(connect.NewScheme()).WithObjects(its).Build()
	for _, c := range []struct {
		member           client.Client
		services         bool
		said, cidrs, err string
	}{
		{there, true, "The networks of lyon: 10.1.0.0/16 (--cidrs), 10.96.0.0/16 (ServiceCIDR kubernetes).\n", "10.1.0.0/16 10.96.0.0/16", ""},
		{withoutServiceCIDRs{}, false, "", "10.1.0.0/16", ""},
		{withoutServiceCIDRs{}, true, "", "10.1.0.0/16", "--cidrs services: the API server at https://192.0.2.1:6443 has no ServiceCIDRs, which Kubernetes has since 1.33; " +
			"write the networks of its ClusterIPs instead of services: they are kube-apiserver's --service-cluster-ip-range"},
	} {
		j := joinCommand{services: c.services, options: join.Options{Cluster: "lyon", CIDRs: []string{"10.1.0.0/16"}}}
		j.member = &objects.Cluster{Client: c.member, Server: "https://192.0.2.1:6443"}
		var said strings.Builder
		err := j.networks(t.Context(), &said)
		if said.String() != c.said || strings.Join(j.options.CIDRs, " ") != c.cidrs || (err == nil) != (c.err == "") || err != nil && err.Error() != c.err {
			t.Errorf("%q, %q, %v, want %+v", &said, j.options.CIDRs, err, c)
		}
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
