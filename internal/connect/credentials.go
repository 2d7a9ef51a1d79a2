package connect

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
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
	if current == nil || config.AuthInfos[current.AuthInfo] == nil {
		return nil, errors.New("read kubeconfig: it has no current context with a user")
	}
	config.AuthInfos[current.AuthInfo].Token = token
	return clientcmd.Write(*config)
}

// differs returns the first field in which another kubeconfig differs in what its current context leads to, "" if at most the token does.
func differs(was, is []byte) string {
	a, b := settings(was), settings(is)
	for i := range a {
		x, y := reflect.ValueOf(a[i]), reflect.ValueOf(b[i])
		for j := range x.NumField() {
			if !reflect.DeepEqual(x.Field(j).Interface(), y.Field(j).Interface()) {
				name, _, _ := strings.Cut(x.Type().Field(j).Tag.Get("json"), ",")
				return name
			}
		}
	}
	return ""
}

// settings returns what the current context of a kubeconfig leads to, without names, notes of other tools, and the token itself.
func settings(kubeconfig []byte) []any {
	var (
		cluster clientcmdapi.Cluster
		user    clientcmdapi.AuthInfo
		in      clientcmdapi.Context
	)
	if config, err := clientcmd.Load(kubeconfig); err == nil && config.Contexts[config.CurrentContext] != nil {
		current := config.Contexts[config.CurrentContext]
		in.Namespace = current.Namespace
		if c := config.Clusters[current.Cluster]; c != nil {
			cluster = *c
		}
		if u := config.AuthInfos[current.AuthInfo]; u != nil {
			user = *u
		}
	}
	cluster.Extensions, user.Extensions = nil, nil
	if user.Token != "" {
		user.Token = "a token"
	}
	return []any{cluster, user, in}
}

// claims are the claims of a ServiceAccount token. They aren't verified here: the token is our own, and the hub will.
type claims struct {
	Subject string `json:"sub"`
	Issued  int64  `json:"iat"`
	Expires int64  `json:"exp"`
}

func (c claims) issued() time.Time       { return time.Unix(c.Issued, 0) }
func (c claims) expires() time.Time      { return time.Unix(c.Expires, 0) }
func (c claims) lifetime() time.Duration { return c.expires().Sub(c.issued()) }

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

// subjectOf returns the user name of a member's ServiceAccount in tokens and RBAC.
func subjectOf(cluster string) string {
	return "system:serviceaccount:" + api.MemberNamespace(cluster) + ":" + api.MemberServiceAccount
}
