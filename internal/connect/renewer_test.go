package connect

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/clusterset/clusterset/api"
)

// renewing is a hub that gives a new token to whoever asks, and has nothing else.
type renewing struct {
	token string
	asked int
}

// RoundTrip implements http.RoundTripper.
func (h *renewing) RoundTrip(r *http.Request) (*http.Response, error) {
	content := `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`
	switch r.URL.Path {
	case "/api":
		content = `{"kind":"APIVersions","versions":["v1"]}`
	case "/api/v1":
		content = `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"v1","resources":[{"name":"serviceaccounts","kind":"ServiceAccount","namespaced":true}]}`
	case "/api/v1/namespaces/clusterset-member-beijing/serviceaccounts/" + api.MemberServiceAccount + "/token":
		h.asked++
		content = fmt.Sprintf(`{"kind":"TokenRequest","apiVersion":"authentication.k8s.io/v1","status":{"token":%q}}`, h.token)
	}
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(content)), Request: r,
	}, nil
}

// An agent that began with another token renews that of a later join.
func TestRenewerTakesUpAJoinedToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, write := opened(t, kubeconfig(t, server, "an administrator's"))
		hub := &renewing{token: token(2000)}
		c.config.Transport = hub
		ended := make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { ended <- (&Renewer{Connection: c, Cluster: "beijing"}).Start(ctx) }()
		<-time.After(time.Hour)
		if hub.asked > 0 {
			t.Error("it renews a token that isn't its own")
		}
		write(kubeconfig(t, server, token(time.Now().Unix())))
		if err := c.reload(ctx); err != nil {
			t.Fatal(err)
		}
		<-time.After(lifetime/2 + 2*renewEvery)
		if got, _ := c.current(); got != token(2000) || hub.asked != 1 {
			t.Errorf("its own token isn't renewed; the hub was asked %d times", hub.asked)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

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
