package connect_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/join"
	"github.com/clusterset/clusterset/internal/connect"
	"github.com/clusterset/clusterset/test/kube"
)

func TestTokenIsRenewedAtHalfItsLife(t *testing.T) {
	hub := kube.Start(t)
	ctx := t.Context()
	if err := join.InstallHubCRDs(ctx, join.At(hub.Config())); err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := join.Join(ctx, join.At(hub.Config()), join.Options{Cluster: "beijing", TokenLifetime: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, kubeconfig, 0o600); err != nil {
		t.Fatal(err)
	}
	connection, err := connect.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := connection.Cluster(); got != "beijing" {
		t.Errorf("the kubeconfig says it is for %q", got)
	}
	before, _ := connection.Current()
	c, ok := connect.ParseToken(before)
	subject := "system:serviceaccount:" + api.MemberNamespace("beijing") + ":" + api.MemberServiceAccount
	if !ok || c.Subject != subject || c.Expires-c.Issued != int64(time.Hour/time.Second) {
		t.Fatalf("token says %+v", c)
	}
	member, err := connect.NewClient(connection.Config())
	if err != nil {
		t.Fatal(err)
	}
	if err := member.List(ctx, &clustersetv1alpha1.ExportedServiceList{}); err != nil {
		t.Fatal(err)
	}

	key := types.NamespacedName{Namespace: api.SystemNamespace, Name: api.HubSecret}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}, Data: map[string][]byte{api.HubSecretKey: kubeconfig}}
	store := fake.NewClientBuilder().Build()
	r := &connect.Renewer{Connection: connection, Cluster: "beijing", Store: connect.SecretStore{Client: store, Key: key}}
	connection.IsAged(29 * time.Minute)
	if renewed, err := r.Renew(ctx, member); renewed || err != nil {
		t.Errorf("before half its life: renewed %v, %v", renewed, err)
	}
	connection.IsAged(31 * time.Minute)
	if _, err := r.Renew(ctx, member); err == nil {
		t.Error("no error although there is no Secret to store it in")
	}
	if err := store.Create(ctx, secret); err != nil {
		t.Fatal(err)
	}
	if renewed, err := r.Renew(ctx, member); !renewed || err != nil { // with the member's own credentials
		t.Fatalf("renewed %v, %v", renewed, err)
	}
	after, _ := connection.Current()
	if after == before {
		t.Error("the token is the old one")
	}
	if err := member.List(ctx, &clustersetv1alpha1.ExportedServiceList{}); err != nil {
		t.Errorf("with the new token: %v", err)
	}
	if err := store.Get(ctx, key, secret); err != nil || !strings.Contains(string(secret.Data[api.HubSecretKey]), after) {
		t.Errorf("the Secret has another token, or %v", err)
	}
}
