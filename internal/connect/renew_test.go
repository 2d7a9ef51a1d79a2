package connect_test

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

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

	hubSays := func(later time.Duration) {
		connection.Heard(time.Unix(c.Issued, 0).Add(later).UTC().Format(http.TimeFormat))
	}
	hubSays(29 * time.Minute)
	r := &connect.Renewer{Connection: connection, Cluster: "beijing", Store: connect.FileStore(path)}
	if renewed, err := r.Renew(ctx, member); renewed || err != nil {
		t.Errorf("before half its life: renewed %v, %v", renewed, err)
	}
	hubSays(31 * time.Minute)
	r.Store = connect.FileStore(filepath.Join(path, "can't be")) // the store can't be written
	if _, err := r.Renew(ctx, member); err == nil {
		t.Error("no error from a store that is away")
	}
	hubSays(29 * time.Minute)
	r.Store = connect.FileStore(path)
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
	again, err := connect.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if saved, _ := again.Current(); saved != after {
		t.Error("the file has another token")
	}
}
