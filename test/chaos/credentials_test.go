package chaos

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/golang-jwt/jwt/v5"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/test/fleettest"
)

// expireToken writes a token that expired two minutes ago into the agent's kubeconfig for the hub. It signs the token with
// the hub's key, because the hub issues no expired tokens.
func expireToken(m *fleettest.Member, h *fleettest.Hub) error {
	content, err := os.ReadFile(filepath.Join(h.Dir, "pki", "service-account.key"))
	if err != nil {
		return err
	}
	block, _ := pem.Decode(content)
	key, err := x509.ParseECPrivateKey(block.Bytes)
	if err != nil {
		return err
	}
	var account corev1.ServiceAccount
	namespace := api.MemberNamespace(m.Spec.Name)
	if err := h.Get(namespace, api.MemberServiceAccount, &account); err != nil {
		return err
	}
	const issuer = "https://kubernetes.default.svc"
	now := time.Now()
	token, err := jwt.NewWithClaims(jwt.SigningMethodES256, jwt.MapClaims{
		"iss": issuer, "aud": []string{issuer},
		"sub": fmt.Sprintf("system:serviceaccount:%s:%s", namespace, account.Name),
		"iat": now.Add(-time.Hour).Unix(), "nbf": now.Add(-time.Hour).Unix(), "exp": now.Add(-2 * time.Minute).Unix(),
		"kubernetes.io": map[string]any{"namespace": namespace, "serviceaccount": map[string]any{"name": account.Name, "uid": account.UID}},
	}).SignedString(key)
	if err != nil {
		return err
	}
	config, err := clientcmd.LoadFromFile(m.Base.HubKubeconfig)
	if err != nil {
		return err
	}
	for _, user := range config.AuthInfos {
		user.Token = token
	}
	return clientcmd.WriteToFile(*config, m.Base.HubKubeconfig)
}
