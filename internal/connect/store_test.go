package connect

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/clusterset/clusterset/api"
)

// A renewed token is stored late, because the store was away or its volume lags, after a new join has written other credentials there.
func TestRenewalDoesNotOverwriteNewCredentials(t *testing.T) {
	of := func(server, token string) string {
		content, err := Kubeconfig(&rest.Config{Host: server}, "", "beijing", token)
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	const server = "https://hub.example:6443"
	renewed := of(server, token(2000))
	key := types.NamespacedName{Namespace: "clusterset-system", Name: api.HubSecret}
	secretWith := func(stored string) *corev1.Secret {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}, Data: map[string][]byte{api.HubSecretKey: []byte(stored)},
		}
	}
	for name, c := range map[string]struct {
		stored string
		stays  bool
	}{
		"what it was renewed from":        {of(server, token(1000)), false},
		"what was stored already":         {renewed, false},
		"something else":                  {"first", false},
		"a new join's":                    {of(server, token(3000)), true},
		"another hub's":                   {of("https://other.example:6443", token(1000)), true},
		"credentials that aren't a token": {of(server, ""), true},
	} {
		want := renewed
		if c.stays {
			want = c.stored
		}
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "kubeconfig")
			if err := os.WriteFile(path, []byte(c.stored), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := FileStore(path).Save(t.Context(), []byte(renewed)); err != nil {
				t.Fatal(err)
			}
			if is, err := os.ReadFile(path); err != nil || string(is) != want {
				t.Errorf("the file has %s, %v", is, err)
			}

			on, secret := fake.NewClientBuilder().WithObjects(secretWith(c.stored)).Build(), &corev1.Secret{}
			if err := (SecretStore{on, key}).Save(t.Context(), []byte(renewed)); err != nil {
				t.Fatal(err)
			}
			if err := on.Get(t.Context(), key, secret); err != nil || string(secret.Data[api.HubSecretKey]) != want {
				t.Errorf("the Secret has %s, %v", secret.Data[api.HubSecretKey], err)
			}
		})
	}

	t.Run("a join at the same time", func(t *testing.T) {
		joined := of(server, token(3000))
		on, secret := fake.NewClientBuilder().WithObjects(secretWith(of(server, token(1000)))).Build(), &corev1.Secret{}
		late := interceptor.NewClient(on, interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				if err := c.Get(ctx, key, o, opts...); err != nil {
					return err
				}
				return c.Update(ctx, secretWith(joined))
			},
		})
		if err := (SecretStore{late, key}).Save(t.Context(), []byte(renewed)); !apierrors.IsConflict(err) {
			t.Errorf("got %v", err)
		}
		if err := on.Get(t.Context(), key, secret); err != nil || string(secret.Data[api.HubSecretKey]) != joined {
			t.Errorf("the Secret has %s, %v", secret.Data[api.HubSecretKey], err)
		}
	})
}
