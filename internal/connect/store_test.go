package connect

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/clusterset/clusterset/api"
)

// A renewed token is stored late, because the API server was away, after a new join has written other credentials there.
func TestRenewalDoesNotOverwriteNewCredentials(t *testing.T) {
	of := func(token int64) string { return string(kubeconfig(t, server, fmt.Sprint("token ", token))) }
	key := types.NamespacedName{Namespace: api.SystemNamespace, Name: api.HubSecret}
	secretWith := func(stored string) *corev1.Secret {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}, Data: map[string][]byte{api.HubSecretKey: []byte(stored)},
		}
	}
	for name, c := range map[string]struct{ stored, joined, want string }{
		"what it was renewed from": {of(1), "", of(2)},
		"a new join's":             {of(3), "", of(3)},
		"a user's":                 {"half a kubeconfig", "", "half a kubeconfig"},
		"a join at the same time":  {of(1), of(3), of(3)},
	} {
		on, secret := fake.NewClientBuilder().WithObjects(secretWith(c.stored)).Build(), &corev1.Secret{}
		member := interceptor.NewClient(on, interceptor.Funcs{
			Get: func(ctx context.Context, on client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				if err := on.Get(ctx, key, o, opts...); err != nil || c.joined == "" {
					return err
				}
				return on.Update(ctx, secretWith(c.joined))
			},
		})
		if err := (SecretStore{member, key}).Save(t.Context(), "token 1", []byte(of(2))); err != nil && !apierrors.IsConflict(err) {
			t.Errorf("%s: %v", name, err)
		}
		if err := on.Get(t.Context(), key, secret); err != nil || string(secret.Data[api.HubSecretKey]) != c.want {
			t.Errorf("%s: the Secret has %s, %v", name, secret.Data[api.HubSecretKey], err)
		}
	}
}
