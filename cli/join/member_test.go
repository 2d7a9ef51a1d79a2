package join_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/cli/join"
	"github.com/clusterset/clusterset/internal/connect"
	"github.com/clusterset/clusterset/test/kube"
)

func TestWhatIsPutIntoAMember(t *testing.T) {
	t.Parallel()
	member := kube.Start(t)
	ctx := t.Context()
	c := newClient(t, member.Config())
	key := types.NamespacedName{Namespace: api.SystemNamespace, Name: api.HubSecret}
	kubeconfigIn := func() string {
		secret := &corev1.Secret{}
		if err := c.Get(ctx, key, secret); err != nil {
			return err.Error()
		}
		return string(secret.Data[api.HubSecretKey])
	}

	t.Run("the Secret is installed, updated, renewed and removed", func(t *testing.T) {
		for _, content := range []string{"first", "second"} {
			if err := join.InstallSecret(ctx, c, key, "beijing", []byte(content)); err != nil || kubeconfigIn() != content {
				t.Fatalf("%q, %v", kubeconfigIn(), err)
			}
		}
		store := connect.SecretStore{Client: c, Key: key}
		if err := store.Save(ctx, []byte("renewed")); err != nil || kubeconfigIn() != "renewed" {
			t.Errorf("%q, %v", kubeconfigIn(), err)
		}
		if err := join.RemoveSecret(ctx, c, key); err != nil {
			t.Error(err)
		}
		if err := c.Get(ctx, key, &corev1.Secret{}); !apierrors.IsNotFound(err) {
			t.Errorf("the Secret is left: %v", err)
		}
		if err := store.Save(ctx, []byte("renewed")); err == nil {
			t.Error("a renewal made the Secret of a cluster that has left")
		}
	})
	t.Run("someone else's Secret stays", func(t *testing.T) {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
		if err := c.Create(ctx, secret); err != nil {
			t.Fatal(err)
		}
		if err := join.RemoveSecret(ctx, c, key); err != nil {
			t.Error(err)
		}
		if err := c.Get(ctx, key, secret); err != nil {
			t.Error(err)
		}
	})
}
