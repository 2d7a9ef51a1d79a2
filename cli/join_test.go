package cli

import (
	"encoding/base64"
	"fmt"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/clusterset/clusterset/internal/connect"
)

// join says when the token expires that the hub's API server issued, which may be earlier than was asked for.
func TestJoinSaysWhenTheTokenExpires(t *testing.T) {
	expires := time.Date(2026, 3, 1, 12, 0, 0, 0, time.Local)
	claims := fmt.Sprintf(`{"iat": %d, "exp": %d}`, expires.Add(-time.Hour).Unix(), expires.Unix())
	for token, want := range map[string]string{
		"e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln": ", valid until 2026-03-01 and renewed before that,",
		"opaque": "",
	} {
		kubeconfig, err := connect.Kubeconfig(&rest.Config{Host: "https://hub:6443"}, "https://hub:6443", "beijing", token)
		if err != nil {
			t.Fatal(err)
		}
		if got := validUntil(kubeconfig); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
