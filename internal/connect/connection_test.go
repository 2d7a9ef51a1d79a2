package connect

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

const server = "https://hub.example:6443"

// lifetime is that of the tokens here.
const lifetime = time.Hour

// token returns an unsigned token, because the package reads only the claims.
func token(issued int64) string {
	payload := fmt.Sprintf(`{"sub":%q,"iat":%d,"exp":%d}`, subjectOf("beijing"), issued, issued+int64(lifetime.Seconds()))
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(payload)) + ".c2ln"
}

// kubeconfig returns one as join makes it.
func kubeconfig(t *testing.T, server, token string) []byte {
	t.Helper()
	content, err := Kubeconfig(&rest.Config{Host: server}, "", "beijing", token)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// opened returns a connection, and a function that writes its file.
func opened(t *testing.T, content []byte) (*Connection, func(content []byte)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	write := func(content []byte) {
		t.Helper()
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(content)
	c, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return c, write
}

func TestKubeconfigFileIsFollowed(t *testing.T) {
	c, write := opened(t, kubeconfig(t, server, token(1000)))
	for _, step := range []struct {
		name    string
		do      func()
		want    int64
		refused bool
	}{
		{"nothing changed", func() {}, 1000, false},
		{"a newer token", func() { write(kubeconfig(t, server, token(2000))) }, 2000, false},
		{"the hub refuses it, and the file has no other", func() { c.answered(token(2000), false) }, 2000, true},
		{"a restored Secret", func() { write(kubeconfig(t, server, token(1500))) }, 1500, false},
		{"a late answer for a token of before", func() { c.answered(token(2000), false) }, 1500, false},
		{"the hub refuses that, too", func() { c.answered(token(1500), false) }, 1500, true},
		{"which was a mistake", func() { c.answered(token(1500), true) }, 1500, false},
		{"ours is renewed, and the volume is behind", func() { c.adopt(token(3000), kubeconfig(t, server, token(3000))) }, 3000, false},
		{"a file that is being written", func() { write([]byte("half a fi")) }, 3000, false},
	} {
		step.do()
		if err := c.reload(t.Context()); err != nil {
			t.Errorf("%s: %v", step.name, err)
		}
		if got, _ := c.current(); got != token(step.want) {
			t.Errorf("%s: another token than that of %d is in use", step.name, step.want)
		}
		if since := c.Refused(); since.IsZero() == step.refused {
			t.Errorf("%s: refused since %s", step.name, since)
		}
	}
}

// A token is replaced while the agent runs. Whatever else changes needs a restart.
func TestKubeconfigThatDiffersInMoreThanItsTokenNeedsARestart(t *testing.T) {
	type change func(*clientcmdapi.Context, *clientcmdapi.Cluster, *clientcmdapi.AuthInfo)
	of := func(token string, changes ...change) []byte {
		in := &clientcmdapi.Context{Cluster: "hub", AuthInfo: "hub", Namespace: "clusterset-member-beijing"}
		c, u := &clientcmdapi.Cluster{Server: server}, &clientcmdapi.AuthInfo{Token: token}
		for _, f := range changes {
			f(in, c, u)
		}
		content, err := clientcmd.Write(clientcmdapi.Config{
			Clusters: map[string]*clientcmdapi.Cluster{"hub": c}, AuthInfos: map[string]*clientcmdapi.AuthInfo{"hub": u},
			Contexts: map[string]*clientcmdapi.Context{"hub": in}, CurrentContext: "hub",
		})
		if err != nil {
			t.Fatal(err)
		}
		return content
	}
	certificate := func(content string) []byte {
		return of("", func(_ *clientcmdapi.Context, _ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) {
			u.ClientCertificateData, u.ClientKeyData = []byte(content), []byte("key")
		})
	}
	before, after := token(1000), token(2000)
	for name, test := range map[string]struct {
		was, is []byte
		restart bool
	}{
		"another token":             {of(before), of(after), false},
		"nothing":                   {certificate("a"), certificate("a"), false},
		"another certificate":       {certificate("a"), certificate("b"), true},
		"a certificate for a token": {of(before), certificate("a"), true},
		"a token for a certificate": {certificate("a"), of(after), true},
		"no token":                  {of(before), of(""), true},
		"another server": {of(before), of(after, func(_ *clientcmdapi.Context, c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) {
			c.Server = "https://other"
		}), true},
		"a proxy": {of(before), of(after, func(_ *clientcmdapi.Context, c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) {
			c.ProxyURL = "http://proxy"
		}), true},
		"another namespace": {of(before), of(after, func(in *clientcmdapi.Context, _ *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) { in.Namespace = "x" }), true},
	} {
		c, write := opened(t, test.was)
		write(test.is)
		if err := c.reload(t.Context()); (err != nil) != test.restart {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestMissingKubeconfigSaysWhatToDo(t *testing.T) {
	if _, err := Open(filepath.Join(t.TempDir(), "none")); err == nil || !strings.Contains(err.Error(), "clusterset join") {
		t.Errorf("got %v", err)
	}
}

func TestTokens(t *testing.T) {
	if got := Expires(token(1000)); !got.Equal(time.Unix(4600, 0)) {
		t.Errorf("a token of 1000 for an hour expires at %s", got)
	}
	for _, s := range []string{"", "abc", "a.b.c", "e30.e30.e30", "e30." + base64.RawURLEncoding.EncodeToString([]byte(`{"iat":5,"exp":4}`)) + ".x"} {
		if c, ok := parseToken(s); ok || !Expires(s).IsZero() {
			t.Errorf("%q is %+v", s, c)
		}
	}
}

// A token is due once half of its lifetime is over. A clock that is too wrong to tell its age makes it due at the start, and one that was just
// requested isn't, whatever the clock.
func TestTokensAreDueAtHalfTheirLife(t *testing.T) {
	const half = lifetime / 2
	for _, test := range []struct {
		age  time.Duration // of a token that is found, by this cluster's clock
		left time.Duration // until it is due
	}{
		{0, half},
		{-maxSkew, half + maxSkew},
		{half - time.Second, time.Second},
		{half, 0},
		{-2 * lifetime, 0},
		{20 * 365 * 24 * lifetime, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			c, _ := opened(t, kubeconfig(t, server, token(time.Now().Add(-test.age).Unix())))
			expect := func(when string, want bool) {
				t.Helper()
				if got := c.due(); got != want {
					t.Errorf("a token of %s is due %s: %v", test.age, when, got)
				}
			}
			if test.left > 0 {
				<-time.After(test.left - time.Second)
				expect("too early", false)
				<-time.After(time.Second)
			}
			expect("in time", true)
			c.adopt(token(time.Now().Add(-test.age).Unix()), nil)
			<-time.After(half - time.Second)
			expect("once renewed", false)
			<-time.After(time.Second)
			expect("after half of it in use", true)
		})
	}
}
