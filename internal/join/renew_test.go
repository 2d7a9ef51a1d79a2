package join

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/test/kube"
)

func TestTokenIsRenewedAtHalfItsLife(t *testing.T) {
	hub := kube.Start(t)
	ctx := t.Context()
	if err := InstallHubCRDs(ctx, hub.Config()); err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := Join(ctx, hub.Config(), Options{Cluster: "beijing", TokenLifetime: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, kubeconfig, 0o600); err != nil {
		t.Fatal(err)
	}
	connection, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := connection.Cluster(); got != "beijing" {
		t.Errorf("the kubeconfig says it is for %q", got)
	}
	before, _ := connection.current()
	c, ok := parseToken(before)
	if !ok || c.Subject != subjectOf("beijing") || c.lifetime() != time.Hour {
		t.Fatalf("token says %+v", c)
	}
	member, err := NewClient(connection.Config())
	if err != nil {
		t.Fatal(err)
	}
	if err := member.List(ctx, &clustersetv1alpha1.ExportedServiceList{}); err != nil {
		t.Fatal(err)
	}

	now := time.Now().Add(29 * time.Minute)
	r := &Renewer{Connection: connection, Cluster: "beijing", Store: FileStore(path), Now: func() time.Time { return now }}
	if renewed, err := r.renew(ctx, member); renewed || err != nil {
		t.Errorf("before half its life: renewed %v, %v", renewed, err)
	}
	now = time.Now().Add(31 * time.Minute)
	r.Store = FileStore(filepath.Join(path, "can't be")) // the store is away
	if _, err := r.renew(ctx, member); err == nil {
		t.Error("no error from a store that is away")
	}
	now = time.Now().Add(29 * time.Minute)
	r.Store = FileStore(path)
	if renewed, err := r.renew(ctx, member); !renewed || err != nil { // with its own credentials
		t.Fatalf("renewed %v, %v", renewed, err)
	}
	after, _ := connection.current()
	if after == before {
		t.Error("the token is the old one")
	}
	if err := member.List(ctx, &clustersetv1alpha1.ExportedServiceList{}); err != nil {
		t.Errorf("with the new token: %v", err)
	}
	again, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if saved, _ := again.current(); saved != after {
		t.Error("the file has another token")
	}
}

// token makes an unsigned one, which is all that we look at.
func token(issued int64) string {
	payload := fmt.Sprintf(`{"sub":%q,"iat":%d,"exp":%d}`, subjectOf("beijing"), issued, issued+3600)
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(payload)) + ".c2ln"
}

func writeKubeconfig(t *testing.T, path, server, token string) {
	t.Helper()
	content, err := buildKubeconfig(&rest.Config{Host: server}, "", "beijing", token)
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

func TestTokensThatAreNone(t *testing.T) {
	for _, s := range []string{"", "abc", "a.b.c", "e30.e30.e30", "e30." + base64.RawURLEncoding.EncodeToString([]byte(`{"iat":5,"exp":4}`)) + ".x"} {
		if c, ok := parseToken(s); ok {
			t.Errorf("%q is %+v", s, c)
		}
	}
}
