package cli

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
)

// forge makes a token of the member's account with other times, signed with the hub's own key. The API doesn't issue a token that is
// already old.
func (w *credentials) forge(t *testing.T, issued, expires time.Time, bound *corev1.Secret) string {
	t.Helper()
	parts := strings.Split(tokenOf(t, w.installed(t)), ".")
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		t.Fatal(err)
	}
	var claims map[string]any
	decoder := json.NewDecoder(bytes.NewReader(payload))
	decoder.UseNumber()
	if err := decoder.Decode(&claims); err != nil {
		t.Fatal(err)
	}
	claims["iat"], claims["nbf"], claims["exp"] = issued.Unix(), issued.Unix(), expires.Unix()
	if bound != nil {
		claims["kubernetes.io"].(map[string]any)["secret"] = map[string]any{"name": bound.Name, "uid": string(bound.UID)}
	}
	if payload, err = json.Marshal(claims); err != nil {
		t.Fatal(err)
	}
	unsigned := parts[0] + "." + base64.RawURLEncoding.EncodeToString(payload)
	return unsigned + "." + base64.RawURLEncoding.EncodeToString(w.sign(t, unsigned))
}

// sign makes an ES256 signature (RFC 7518, section 3.4) with the hub's key for ServiceAccount tokens.
func (w *credentials) sign(t *testing.T, text string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(filepath.Dir(w.hub.Kubeconfig()), "pki", "service-account.key"))
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(content)
	key, err := x509.ParseECPrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(text))
	r, s, err := ecdsa.Sign(rand.Reader, key, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	return append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
}

func tokenOf(t *testing.T, kubeconfig string) string {
	t.Helper()
	config, err := clientcmd.RESTConfigFromKubeConfig([]byte(kubeconfig))
	if err != nil {
		t.Fatal(err)
	}
	return config.BearerToken
}

func withToken(t *testing.T, kubeconfig, token string) string {
	t.Helper()
	return strings.ReplaceAll(kubeconfig, tokenOf(t, kubeconfig), token)
}
