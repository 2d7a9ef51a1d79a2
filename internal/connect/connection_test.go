package connect

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/clusterset/clusterset/api"
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

// The hub and the Secret were restored from the same backup, the Secret first: it looks older than the token in use until the hub refuses that.
func TestAnOlderTokenIsUsedOnceOursIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubeconfig")
	const server = "https://hub.example:6443"
	writeKubeconfig(t, path, server, token(2000))
	c, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	writeKubeconfig(t, path, server, token(1000))
	for _, step := range []struct {
		name string
		do   func()
		want int64
	}{
		{"the hub takes ours", func() {}, 2000},
		{"the hub is restored", func() { c.notAccepted(token(2000)) }, 1000},
		{"the hub refuses that, too, and the file has no other", func() { c.notAccepted(token(1000)) }, 1000},
		{"which was a mistake", func() { c.accepted(token(1000)) }, 1000},
	} {
		step.do()
		if err := c.reload(t.Context()); err != nil {
			t.Errorf("%s: %v", step.name, err)
		}
		if got, _ := c.current(); got != token(step.want) {
			t.Errorf("%s: another token than that of %d is in use", step.name, step.want)
		}
		if since := c.Refused(); since.IsZero() == strings.HasSuffix(step.name, "the file has no other") {
			t.Errorf("%s: refused since %s", step.name, since)
		}
	}
}

// A token is replaced while the agent runs. Whatever else changes needs a restart, and the error says what it is.
func TestKubeconfigThatDiffersInMoreThanItsTokenNeedsARestart(t *testing.T) {
	type (
		cluster = clientcmdapi.Cluster
		user    = clientcmdapi.AuthInfo
	)
	write := func(t *testing.T, path, name string, change func(*clientcmdapi.Context, *cluster, *user)) {
		t.Helper()
		in := &clientcmdapi.Context{Cluster: name, AuthInfo: name, Namespace: "clusterset-member-beijing"}
		c, u := &cluster{Server: "https://hub.example:6443"}, &user{}
		change(in, c, u)
		content, err := clientcmd.Write(clientcmdapi.Config{
			Clusters: map[string]*cluster{name: c}, AuthInfos: map[string]*user{name: u}, Contexts: map[string]*clientcmdapi.Context{name: in}, CurrentContext: name,
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	withToken := func(issued int64) func(*clientcmdapi.Context, *cluster, *user) {
		return func(_ *clientcmdapi.Context, _ *cluster, u *user) { u.Token = token(issued) }
	}
	withCertificate := func(content string) func(*clientcmdapi.Context, *cluster, *user) {
		return func(_ *clientcmdapi.Context, _ *cluster, u *user) {
			u.ClientCertificateData, u.ClientKeyData = []byte(content), []byte("key")
		}
	}
	for _, test := range []struct {
		want    string // in the error; "": there is none
		was, is func(*clientcmdapi.Context, *cluster, *user)
	}{
		{"", withToken(1000), withToken(2000)},
		{"", withCertificate("a"), withCertificate("a")},
		{"client-certificate-data", withCertificate("a"), withCertificate("b")},
		{"client-certificate-data", withToken(1000), withCertificate("a")},
		{"token", withToken(1000), func(*clientcmdapi.Context, *cluster, *user) {}},
		{"server", withToken(1000), func(_ *clientcmdapi.Context, c *cluster, u *user) {
			c.Server, u.Token = "https://other.example:6443", token(2000)
		}},
		{"proxy-url", withToken(1000), func(_ *clientcmdapi.Context, c *cluster, u *user) {
			c.ProxyURL, u.Token = "http://proxy.example", token(2000)
		}},
		{"tls-server-name", withToken(1000), func(_ *clientcmdapi.Context, c *cluster, u *user) { c.TLSServerName, u.Token = "hub", token(2000) }},
		{"insecure-skip-tls-verify", withToken(1000), func(_ *clientcmdapi.Context, c *cluster, u *user) {
			c.InsecureSkipTLSVerify, u.Token = true, token(2000)
		}},
		{"namespace", withToken(1000), func(in *clientcmdapi.Context, _ *cluster, u *user) {
			in.Namespace, u.Token = "clusterset-member-shanghai", token(2000)
		}},
	} {
		path := filepath.Join(t.TempDir(), "kubeconfig")
		write(t, path, "a", test.was)
		c, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		write(t, path, "b", test.is) // what things are called doesn't matter
		err = c.reload(t.Context())
		if got := fmt.Sprint(err); (err == nil) != (test.want == "") || err != nil && !strings.Contains(got, "has another "+test.want+" now; restart") {
			t.Errorf("another %q: %v", test.want, err)
		}
	}
}

// The hub may reject the token in use many times a second, and each time the file is read.
func TestBrokenKubeconfigIsReportedOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubeconfig")
	const server = "https://hub.example:6443"
	writeKubeconfig(t, path, server, token(1000))
	c, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	var logged []string
	ctx := log.IntoContext(t.Context(), funcr.New(func(_, line string) { logged = append(logged, line) }, funcr.Options{}))
	for i, content := range []string{"half a fi", "half a file"} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if err := c.reload(ctx); err != nil {
				t.Fatal(err)
			}
		}
		if len(logged) != i+1 {
			t.Errorf("of broken file %d it has logged %q", i+1, logged)
		}
	}
	writeKubeconfig(t, path, server, token(2000))
	if err := c.reload(ctx); err != nil {
		t.Fatal(err)
	}
	if got, _ := c.current(); got != token(2000) {
		t.Error("the mended file isn't used")
	}
}

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
		path := filepath.Join(t.TempDir(), "kubeconfig")
		const server = "https://hub.example:6443"
		writeKubeconfig(t, path, server, "an administrator's")
		c, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		hub := &renewing{token: token(2000)}
		c.config.Transport = hub
		ended := make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { ended <- (&Renewer{Connection: c, Cluster: "beijing", Store: FileStore(path)}).Start(ctx) }()
		<-time.After(time.Hour)
		if hub.asked > 0 {
			t.Error("it renews a token that isn't its own")
		}
		writeKubeconfig(t, path, server, token(1000))
		if err := c.reload(ctx); err != nil {
			t.Fatal(err)
		}
		<-time.After(32 * time.Minute) // half of its lifetime
		if got, _ := c.current(); got != token(2000) {
			t.Errorf("its own token isn't renewed; the hub was asked %d times", hub.asked)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
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

// hubAt is a hub whose clock is so much ahead of this cluster's. It replies with its date.
type hubAt time.Duration

// RoundTrip implements http.RoundTripper.
func (h hubAt) RoundTrip(r *http.Request) (*http.Response, error) {
	date := time.Now().Add(time.Duration(h)).UTC().Format(http.TimeFormat)
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Date": {date}}, Body: http.NoBody, Request: r}, nil
}

// A token is due once half of its lifetime is over by the hub's clock, however wrong this cluster's is.
func TestTokensAreDueByTheHubsClock(t *testing.T) {
	const half = 30 * time.Minute // see token
	open := func(t *testing.T, issued time.Time) *Connection {
		path := filepath.Join(t.TempDir(), "kubeconfig")
		writeKubeconfig(t, path, "https://hub.example:6443", token(issued.Unix()))
		c, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	expect := func(t *testing.T, c *Connection, when string, wantDue, wantKnown bool) {
		t.Helper()
		if due, known := c.due(); due != wantDue || known != wantKnown {
			t.Errorf("%s: due %v, known %v; want %v, %v", when, due, known, wantDue, wantKnown)
		}
	}
	for _, ahead := range []time.Duration{0, 20 * 365 * 24 * time.Hour, -2 * time.Hour} {
		for _, age := range []time.Duration{0, half - time.Second, half} {
			t.Run(fmt.Sprintf("the hub is %s ahead and the token %s old", ahead, age), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := open(t, time.Now().Add(ahead-age))
					expect(t, c, "before the hub has replied", false, false)
					r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://hub.example:6443", http.NoBody)
					if err != nil {
						t.Fatal(err)
					}
					reply, err := (&bearer{c, hubAt(ahead)}).RoundTrip(r)
					if err != nil {
						t.Fatal(err)
					}
					_ = reply.Body.Close()
					expect(t, c, "after a reply", age >= half, true)
					<-time.After(half - age)
					expect(t, c, "when half is over", true, true)
				})
			})
		}
	}
	t.Run("no reply has a date", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := open(t, time.Now())
			c.heard("")
			<-time.After(half - time.Second)
			expect(t, c, "before half is over", false, false)
			<-time.After(time.Second)
			expect(t, c, "after half of it in use", true, true)
		})
	})
	t.Run("a proxy's date is ahead", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := open(t, time.Now())
			c.heard(time.Now().Add(24 * time.Hour).UTC().Format(http.TimeFormat))
			expect(t, c, "a token that was found", true, true)
			c.adopt(token(time.Now().Unix()), nil)
			expect(t, c, "one just requested", false, true)
			<-time.After(half / 2)
			expect(t, c, "a while later", true, true)
		})
	})
}
