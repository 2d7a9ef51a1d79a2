package connect

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// token returns an unsigned token, because the package reads only the claims.
func token(issued int64) string {
	payload := fmt.Sprintf(`{"sub":%q,"iat":%d,"exp":%d}`, subjectOf("beijing"), issued, issued+3600)
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(payload)) + ".c2ln"
}

func writeKubeconfig(t *testing.T, path, server, token string) {
	t.Helper()
	content, err := Kubeconfig(&rest.Config{Host: server}, "", "beijing", token)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestKubeconfigFileIsFollowed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubeconfig")
	const server = "https://hub.example:6443"
	writeKubeconfig(t, path, server, token(1000))
	c, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		name, server string
		issued, want int64
		fails        bool
	}{
		{"nothing changed", server, 1000, 1000, false},
		{"a newer token", server, 2000, 2000, false},
		{"a volume that is behind", server, 1500, 2000, false},
		{"another hub", "https://other.example:6443", 3000, 2000, true},
	} {
		writeKubeconfig(t, path, step.server, token(step.issued))
		if err := c.reload(t.Context()); (err != nil) != step.fails {
			t.Errorf("%s: %v", step.name, err)
		}
		if got, _ := c.current(); got != token(step.want) {
			t.Errorf("%s: another token than that of %d is in use", step.name, step.want)
		}
	}
	if err := os.WriteFile(path, []byte("half a fi"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := c.reload(t.Context()); err != nil {
		t.Errorf("a file that is being written: %v", err)
	}
}

func TestMissingKubeconfigSaysWhatToDo(t *testing.T) {
	if _, err := Open(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("no error")
	} else if got := err.Error(); !strings.Contains(got, "clusterset join") {
		t.Errorf("got %q", got)
	}
}

func TestTokens(t *testing.T) {
	if got := Expires(token(1000)); !got.Equal(time.Unix(4600, 0)) {
		t.Errorf("a token of 1000 for an hour expires at %s", got)
	}
	for _, s := range []string{"", "abc", "a.b.c", "e30.e30.e30", "e30." + base64.RawURLEncoding.EncodeToString([]byte(`{"iat":5,"exp":4}`)) + ".x"} {
		if c, ok := parseToken(s); ok {
			t.Errorf("%q is %+v", s, c)
		}
		if got := Expires(s); !got.IsZero() {
			t.Errorf("%q expires at %s", s, got)
		}
	}
}
