package connect

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
)

// MinTokenLifetime is the API's minimum (authentication.k8s.io TokenRequest).
const MinTokenLifetime = 10 * time.Minute

// RequestToken requests a token of the member's ServiceAccount on the hub. An administrator may request one, and so may the
// member itself with its current token.
func RequestToken(ctx context.Context, hub client.Client, cluster string, lifetime time.Duration) (string, error) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: api.MemberNamespace(cluster), Name: api.MemberServiceAccount}}
	seconds := int64(lifetime / time.Second)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	if err := hub.SubResource("token").Create(ctx, account, request); err != nil {
		return "", fmt.Errorf("request token of ServiceAccount %s: %w", client.ObjectKeyFromObject(account), err)
	}
	return request.Status.Token, nil
}

// Kubeconfig returns a kubeconfig for a member's agent: the hub at the configuration's address, or at server if that isn't
// empty, with a token in place of the configuration's own credentials.
func Kubeconfig(hub *rest.Config, server, cluster, token string) ([]byte, error) {
	hub = rest.CopyConfig(hub)
	if err := rest.LoadTLSFiles(hub); err != nil { // a CA's file name is useless elsewhere
		return nil, fmt.Errorf("read the hub's CA: %w", err)
	}
	if server == "" {
		u, _, err := rest.DefaultServerUrlFor(hub)
		if err != nil {
			return nil, fmt.Errorf("hub address %q: %w", hub.Host, err)
		}
		server = u.String()
	}
	const name = "clusterset-hub"
	content, err := clientcmd.Write(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{name: {
			Server:                   server,
			TLSServerName:            hub.ServerName,
			InsecureSkipTLSVerify:    hub.Insecure,
			CertificateAuthorityData: hub.CAData,
		}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{name: {Token: token}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name, Namespace: api.MemberNamespace(cluster)}},
		CurrentContext: name,
	})
	if err != nil {
		return nil, fmt.Errorf("write kubeconfig: %w", err)
	}
	return content, nil
}

// Lifetime returns how long a token is valid after it was issued. ok is false if the token doesn't expire.
func Lifetime(token string) (lifetime time.Duration, ok bool) {
	c, ok := parseToken(token)
	return c.lifetime(), ok
}

// replaceToken returns a kubeconfig with another token for its current context.
func replaceToken(kubeconfig []byte, token string) ([]byte, error) {
	config, err := clientcmd.Load(kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	current := config.Contexts[config.CurrentContext]
	if current == nil || config.AuthInfos[current.AuthInfo] == nil || config.AuthInfos[current.AuthInfo].Token == "" {
		return nil, errors.New("read kubeconfig: it has no current context with a token")
	}
	config.AuthInfos[current.AuthInfo].Token = token
	return clientcmd.Write(*config)
}

// sameButToken reports whether two kubeconfigs have a token each and differ in nothing else.
func sameButToken(a, b []byte) bool {
	x, errX := replaceToken(a, "a token")
	y, errY := replaceToken(b, "a token")
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// claims are the claims of a ServiceAccount token. They aren't verified here: the token is our own, and the hub will.
type claims struct {
	Subject string `json:"sub"`
	Issued  int64  `json:"iat"`
	Expires int64  `json:"exp"`
}

func (c claims) expires() time.Time      { return time.Unix(c.Expires, 0) }
func (c claims) lifetime() time.Duration { return time.Duration(c.Expires-c.Issued) * time.Second }

// parseToken returns a token's claims. ok is false if the token doesn't expire.
func parseToken(token string) (c claims, ok bool) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return c, false
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil || json.Unmarshal(payload, &c) != nil || c.Expires <= c.Issued || c.Issued <= 0 {
		return claims{}, false
	}
	return c, true
}

// Expires returns when a ServiceAccount token expires, or zero if it doesn't, or isn't such a token.
func Expires(token string) time.Time {
	if c, ok := parseToken(token); ok {
		return c.expires()
	}
	return time.Time{}
}

// maxSkew is how far this cluster's clock may be behind the hub's.
const maxSkew = 5 * time.Minute

// issuedHere returns when a token was issued, by the clock of this process: zero, so that it is renewed at once, if that is yet to come. Then
// the clock is so wrong that it can't tell the token's age. From here on only durations are measured, whatever the clock is set to.
func issuedHere(token string) time.Time {
	c, _ := parseToken(token)
	age := time.Since(time.Unix(c.Issued, 0))
	if age < -maxSkew {
		return time.Time{}
	}
	return time.Now().Add(-age)
}

// subjectOf returns the user name of a member's ServiceAccount in tokens and RBAC.
func subjectOf(cluster string) string {
	return "system:serviceaccount:" + api.MemberNamespace(cluster) + ":" + api.MemberServiceAccount
}
