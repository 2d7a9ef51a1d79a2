package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/connect"
	"github.com/clusterset/clusterset/internal/join"
	"github.com/clusterset/clusterset/test/fleet"
	"github.com/clusterset/clusterset/test/kube"
)

// TestCredentials goes through the life of an agent's credentials: renewed in time, taken away, run out while no agent was
// there. In between it exports, and all along what is imported stays. In the end nothing that any process said, and no
// object but Secrets, holds any of them.
func TestCredentials(t *testing.T) {
	w := startCredentials(t)
	t.Run("renewed without a gap", w.renewed)
	t.Run("taken away, and given anew without a restart", w.revoked)
	t.Run("run out while no agent ran", w.ranOut)
	t.Run("said to nobody", w.saidToNobody)
}

type credentials struct {
	whole         *testing.T // outlives its parts, as the processes do
	hub, member   *kube.ControlPlane
	onHub, here   client.Client
	kubeconfig    string // the agent's for the hub
	logs          *lockedBuffer
	stop          func() int
	metrics       string
	secrets       []string
	firstImported types.UID
}

func startCredentials(t *testing.T) *credentials {
	w := &credentials{whole: t, hub: kube.Start(t), member: kube.Start(t), logs: &lockedBuffer{}}
	dir := t.TempDir()
	w.kubeconfig = filepath.Join(dir, "hub")
	var err error
	if w.onHub, err = connect.NewClient(w.hub.Config()); err != nil {
		t.Fatal(err)
	}
	if w.here, err = connect.NewClient(w.member.Config()); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := cli(t, "join", "--hub-kubeconfig", w.hub.Kubeconfig(), "--name", "beijing", "--install-crds")
	if code != 0 {
		t.Fatalf("join: exit code %d, %s", code, stderr)
	}
	w.install(t, stdout)
	if err := join.InstallMemberCRDs(t.Context(), w.member.Config()); err != nil {
		t.Fatal(err)
	}
	w.member.Apply(t, []byte("apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n"))
	for _, c := range []*kube.ControlPlane{w.hub, w.member} {
		w.keep(string(c.Config().KeyData))
	}
	hubProcess, _ := w.startProcess(t, "hub", "--kubeconfig", w.hub.Kubeconfig())
	t.Cleanup(func() {
		hubProcess()
		if t.Failed() {
			t.Log(w.logs.String())
		}
	})
	return w
}

// startProcess runs a command whose output is looked through at the end, and returns what stops it and its metrics' address.
func (w *credentials) startProcess(t *testing.T, args ...string) (stop func() int, metrics string) {
	t.Helper()
	metrics = freeAddress(t)
	args = append(args, "--log-level", "debug", "--metrics-bind-address", metrics, "--health-probe-bind-address", "0")
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), asCommand+"=yes")
	cmd.Stdout, cmd.Stderr = w.logs, w.logs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stopped := false
	return func() int {
		if !stopped {
			stopped = true
			_ = cmd.Process.Signal(syscall.SIGTERM)
			_ = cmd.Wait()
		}
		return cmd.ProcessState.ExitCode()
	}, metrics
}

func (w *credentials) startAgent(t *testing.T) {
	t.Helper()
	w.stop, w.metrics = w.startProcess(t, "member", "--kubeconfig", w.member.Kubeconfig(), "--hub-kubeconfig", w.kubeconfig)
	stop := w.stop
	w.whole.Cleanup(func() { stop() })
}

// install gives the agent a kubeconfig, in one step as the kubelet does.
func (w *credentials) install(t *testing.T, kubeconfig string) {
	t.Helper()
	w.keep(tokenOf(t, kubeconfig))
	if err := os.WriteFile(w.kubeconfig+".next", []byte(kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(w.kubeconfig+".next", w.kubeconfig); err != nil {
		t.Fatal(err)
	}
}

func (w *credentials) installed(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile(w.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// freeAddress is one that nobody listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	port, err := fleet.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return "127.0.0.1:" + port
}

// keep remembers something that may be said nowhere.
func (w *credentials) keep(secret string) { w.secrets = append(w.secrets, secret) }

// exports creates an exported Service and waits until the hub has it.
func (w *credentials) exports(t *testing.T, name string) {
	t.Helper()
	w.create(t, name)
	kube.Eventually(t, 60*time.Second, func() error { return w.exported(t, name) })
}

func (w *credentials) create(t *testing.T, name string) {
	t.Helper()
	w.member.Apply(t, []byte(`
apiVersion: v1
kind: Service
metadata: {namespace: shop, name: `+name+`, annotations: {fabedge.io/global-service: "true"}}
spec: {ports: [{port: 80}]}
`))
}

func (w *credentials) exported(t *testing.T, name string) error {
	key := types.NamespacedName{Namespace: api.MemberNamespace("beijing"), Name: api.ExportedServiceName("shop", name)}
	return w.onHub.Get(t.Context(), key, &clustersetv1alpha1.ExportedService{})
}

// imported makes sure that what was imported first is still there, the same object.
func (w *credentials) imported(t *testing.T) {
	t.Helper()
	o := serviceImport()
	if err := w.here.Get(t.Context(), types.NamespacedName{Namespace: "shop", Name: "web"}, o); err != nil || o.GetUID() != w.firstImported {
		t.Errorf("the import is %s, was %s: %v", o.GetUID(), w.firstImported, err)
	}
}

// renewed gives the agent a token that is past half of its life, so that it is exchanged at once, and takes the old one away
// while exports go on.
func (w *credentials) renewed(t *testing.T) {
	bound := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: api.MemberNamespace("beijing"), Name: "first-token"}}
	if err := w.onHub.Create(t.Context(), bound); err != nil {
		t.Fatal(err)
	}
	// As a TokenRequest with boundObjectRef makes it, but an hour ago: it ends with the Secret.
	now := time.Now()
	first := w.forge(t, now.Add(-time.Hour), now.Add(10*time.Minute), bound)
	if err := w.asks(t, first); err != nil {
		t.Fatalf("the API server doesn't take the test's token: %v", err)
	}
	w.install(t, withToken(t, w.installed(t), first))
	w.startAgent(t)
	w.exports(t, "web")
	kube.Eventually(t, 60*time.Second, func() error {
		o := serviceImport()
		err := w.here.Get(t.Context(), types.NamespacedName{Namespace: "shop", Name: "web"}, o)
		w.firstImported = o.GetUID()
		return err
	})
	kube.Eventually(t, 60*time.Second, func() error {
		if tokenOf(t, w.installed(t)) == first {
			return errors.New("the token is the first one still")
		}
		return nil
	})
	w.keep(tokenOf(t, w.installed(t)))
	if err := w.onHub.Delete(t.Context(), bound); err != nil {
		t.Fatal(err)
	}
	n := 0
	kube.Eventually(t, 60*time.Second, func() error { // the API server knows a token for ten seconds after it has checked it
		w.exports(t, fmt.Sprintf("during-%d", n))
		n++
		if err := w.asks(t, first); !apierrors.IsUnauthorized(err) {
			return fmt.Errorf("with the old token: %w", err)
		}
		return nil
	})
	w.exports(t, "after")
	w.imported(t)
	if strings.Contains(w.logs.String(), "doesn't accept this member's token") {
		t.Error("the agent went on with the old token")
	}
	if got := w.metric(t, `clusterset_hub_token_renewals_total{result="ok"}`); got != "1" {
		t.Errorf("%q renewals were counted", got)
	}
}

// revoked has an administrator end every token, as after a theft, and bring the new one to the agent a while later.
func (w *credentials) revoked(t *testing.T) {
	old := tokenOf(t, w.installed(t))
	code, stdout, stderr := cli(t, "join", "--hub-kubeconfig", w.hub.Kubeconfig(), "--name", "beijing", "--rejoin", "--revoke")
	if code != 0 {
		t.Fatalf("join --rejoin --revoke: exit code %d, %s", code, stderr)
	}
	kube.Eventually(t, 60*time.Second, func() error {
		if err := w.asks(t, old); !apierrors.IsUnauthorized(err) {
			return fmt.Errorf("with the old token: %w", err)
		}
		return w.said("doesn't accept this member's token", "has been revoked", "clusterset join --rejoin")
	})
	w.create(t, "while-cut-off")
	w.imported(t)
	w.install(t, stdout)
	kube.Eventually(t, 90*time.Second, func() error { return w.exported(t, "while-cut-off") })
	w.imported(t)
	if code := w.stop(); code != 0 {
		t.Errorf("the agent ended with %d", code)
	}
}

// ranOut starts the agent with a token that expired while it was down.
func (w *credentials) ranOut(t *testing.T) {
	now := time.Now()
	w.install(t, withToken(t, w.installed(t), w.forge(t, now.Add(-15*24*time.Hour), now.Add(-24*time.Hour), nil)))
	w.startAgent(t)
	w.create(t, "while-expired")
	kube.Eventually(t, 60*time.Second, func() error {
		return w.said("it expired at "+now.Add(-24*time.Hour).UTC().Format(time.RFC3339), "Names stay answered as they are")
	})
	w.imported(t)
	code, stdout, stderr := cli(t, "join", "--hub-kubeconfig", w.hub.Kubeconfig(), "--name", "beijing", "--rejoin")
	if code != 0 {
		t.Fatalf("join --rejoin: exit code %d, %s", code, stderr)
	}
	w.install(t, stdout)
	kube.Eventually(t, 90*time.Second, func() error { return w.exported(t, "while-expired") })
	w.imported(t)
}

// saidToNobody looks for the credentials in all that has been said.
func (w *credentials) saidToNobody(t *testing.T) {
	// What a person may type, with credentials that work, that don't, and that are broken.
	revoked := filepath.Join(t.TempDir(), "revoked")
	w.writeRevoked(t, revoked)
	local := []string{"--kubeconfig", w.member.Kubeconfig()}
	for _, hub := range append([]string{w.kubeconfig, revoked, w.hub.Kubeconfig()}, w.broken(t)...) {
		onHub := []string{"--hub-kubeconfig", hub}
		for _, args := range [][]string{
			{"status", "-o", "wide"},
			{"status", "-o", "yaml"},
			{"explain", "shop/web"},
			{"doctor", "--for", "member", "-o", "json"},
		} {
			w.hear(t, append(append(args, local...), onHub...)...)
		}
		w.hear(t, append([]string{"drain", "nobody"}, onHub...)...)
		w.hear(t, append([]string{"leave", "--name", "nobody"}, onHub...)...)
		w.hear(t, "status", "--kubeconfig", hub)
		if hub != w.kubeconfig && hub != w.hub.Kubeconfig() { // join prints credentials where it succeeds: that is what it is for
			w.hear(t, append([]string{"join", "--name", "lyon"}, onHub...)...)
			w.hear(t, append([]string{"join", "--name", "lyon", "--install-crds"}, onHub...)...)
		}
	}
	for _, broken := range w.broken(t) {
		w.hear(t, "member", "--hub-kubeconfig", broken, "--cluster", "beijing", "--log-level", "debug", "--kubeconfig", filepath.Join(t.TempDir(), "none"))
		w.hear(t, "hub", "--kubeconfig", broken, "--log-level", "debug")
	}
	w.hear(t, append([]string{"join", "--rejoin", "--hub-kubeconfig", w.hub.Kubeconfig(), "--name", "beijing"}, local...)...)
	w.keep(tokenOf(t, w.secretInMember(t)))

	said := map[string]string{"a process or command": w.logs.String(), "the agent's metrics": w.get(t, "/metrics")}
	for name, c := range map[string]client.Client{"hub": w.onHub, "member": w.here} {
		for _, gvk := range []schema.GroupVersionKind{
			{Version: "v1", Kind: "Event"},
			{Version: "v1", Kind: "ConfigMap"},
			{Version: "v1", Kind: "Namespace"},
			{Version: "v1", Kind: "Service"},
			{Version: "v1", Kind: "ServiceAccount"},
			{Group: "coordination.k8s.io", Version: "v1", Kind: "Lease"},
			{Group: "clusterset.dev", Version: "v1alpha1", Kind: "MemberCluster"},
			{Group: "clusterset.dev", Version: "v1alpha1", Kind: "ExportedService"},
			{Group: "multicluster.x-k8s.io", Version: "v1beta1", Kind: "ServiceExport"},
			{Group: "multicluster.x-k8s.io", Version: "v1beta1", Kind: "ServiceImport"},
			{Group: "dns.fabedge.io", Version: "v1alpha1", Kind: "GlobalService"},
		} {
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(gvk)
			if err := c.List(t.Context(), list); err != nil {
				if (gvk.Kind == "ExportedService") == (name == "hub") && !strings.HasPrefix(gvk.Group, "multicluster.") && gvk.Kind != "GlobalService" {
					t.Errorf("%s: %v", gvk.Kind, err)
				}
				continue
			}
			content, err := json.Marshal(list)
			if err != nil {
				t.Fatal(err)
			}
			said["a "+gvk.Kind+" of the "+name] = string(content)
		}
	}
	for where, text := range said {
		for _, secret := range w.secrets {
			for _, part := range partsOf(secret) {
				if at := strings.Index(text, part); at >= 0 {
					t.Errorf("%s holds a part of a credential: …%s[REDACTED]", where, text[max(0, at-200):at])
				}
			}
		}
	}
	// The net has no hole: it would have caught the one thing that is printed on purpose.
	var caught bool
	for _, part := range partsOf(w.secrets[0]) {
		caught = caught || strings.Contains(w.installedBefore(t), part)
	}
	if !caught || !strings.Contains(said["a process or command"], "level=DEBUG") || len(said["a Event of the member"]) < 1000 {
		t.Error("the test looks at too little: debug logs, Events or the secrets themselves are missing")
	}
}

// installedBefore is a kubeconfig with the first token.
func (w *credentials) installedBefore(t *testing.T) string {
	return withToken(t, w.installed(t), w.secrets[0])
}

// hear runs a command whose output is looked through. Some succeed and some fail.
func (w *credentials) hear(t *testing.T, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second) // where a mistake isn't noticed, an agent runs
	defer cancel()
	var stdout, stderr bytes.Buffer
	code := run(ctx, args, &stdout, &stderr)
	_, _ = fmt.Fprintf(w.logs, "$ clusterset %s (exit code %d)\n%s%s", strings.Join(args, " "), code, stdout.String(), stderr.String())
	if isAgent := args[0] == "member" || args[0] == "hub"; code != 0 && !isAgent && strings.Count(stderr.String(), "\n") != 1 {
		t.Errorf("clusterset %s: the error isn't one line: %q", strings.Join(args, " "), stderr.String())
	}
}

// broken are kubeconfigs that somebody has made a mistake in. Each still holds the token.
func (w *credentials) broken(t *testing.T) []string {
	t.Helper()
	content := w.installed(t)
	token := tokenOf(t, content)
	dir := t.TempDir()
	var paths []string
	for name, text := range map[string]string{
		"truncated":     content[:strings.Index(content, token)+len(token)-7],
		"a list":        strings.Replace(content, token, "["+token+"]", 1),
		"a mapping":     strings.Replace(content, token, "{token: "+token+"}", 1),
		"no-indent":     strings.Replace(content, "    token: ", "token: ", 1),
		"tabs":          strings.Replace(content, "    token: ", "\ttoken: ", 1),
		"unquoted":      strings.Replace(content, token, token+": : {", 1),
		"the token":     token,
		"wrong CA":      strings.Replace(content, "certificate-authority-data: ", "certificate-authority-data: "+base64.StdEncoding.EncodeToString([]byte("none"))+" #", 1),
		"a token as CA": strings.Replace(content, "certificate-authority-data: ", "certificate-authority-data: "+token+" #", 1),
		"no address":    strings.Replace(content, "server: https://", "server: ", 1),
		"a newline":     strings.Replace(content, token, `"`+token+`\nX-Other: header"`, 1),
	} {
		path := filepath.Join(dir, strings.ReplaceAll(name, " ", "-"))
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	return paths
}

func (w *credentials) writeRevoked(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(w.installedBefore(t)), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (w *credentials) secretInMember(t *testing.T) string {
	t.Helper()
	var s corev1.Secret
	if err := w.here.Get(t.Context(), types.NamespacedName{Namespace: api.SystemNamespace, Name: api.HubSecret}, &s); err != nil {
		t.Fatal(err)
	}
	return string(s.Data[api.HubSecretKey])
}

// said returns nil once the logs have a line with all of the words.
func (w *credentials) said(words ...string) error {
	for line := range strings.Lines(w.logs.String()) {
		all := true
		for _, word := range words {
			all = all && strings.Contains(line, word)
		}
		if all {
			return nil
		}
	}
	return fmt.Errorf("no line of the logs says %q", words)
}

// asks makes a request with a token.
func (w *credentials) asks(t *testing.T, token string) error {
	config := w.hub.Config()
	config.CertData, config.KeyData, config.BearerToken = nil, nil, token
	c, err := connect.NewClient(config)
	if err != nil {
		return err
	}
	return c.List(t.Context(), &clustersetv1alpha1.MemberClusterList{})
}

func (w *credentials) get(t *testing.T, path string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+w.metrics+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reply.Body.Close() }()
	body, err := io.ReadAll(reply.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func (w *credentials) metric(t *testing.T, name string) string {
	t.Helper()
	for line := range strings.Lines(w.get(t, "/metrics")) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// forge makes a token of the member's account of another time, signed with the hub's own key: the API gives none that is old
// already.
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

// sign is ES256 (RFC 7518, section 3.4) with the hub's key for ServiceAccount tokens.
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
	return userOf(t, kubeconfig).Token
}

func withToken(t *testing.T, kubeconfig, token string) string {
	t.Helper()
	return strings.ReplaceAll(kubeconfig, tokenOf(t, kubeconfig), token)
}

func userOf(t *testing.T, kubeconfig string) *clientcmdapi.AuthInfo {
	t.Helper()
	config, err := clientcmd.Load([]byte(kubeconfig))
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range config.AuthInfos {
		return user
	}
	t.Fatal("a kubeconfig without a user")
	return nil
}

// partsOf are what a credential can be known by: of a token its signature, without which it is worth nothing, and the rest; of a
// key the lines of its body. In base64, too, as Secrets and kubeconfigs have them.
func partsOf(secret string) []string {
	var parts []string
	if block, _ := pem.Decode([]byte(secret)); block != nil {
		for line := range strings.Lines(secret) {
			if line = strings.TrimSpace(line); len(line) > 30 && !strings.HasPrefix(line, "-----") {
				parts = append(parts, line)
			}
		}
	} else {
		parts = strings.Split(secret, ".")[1:]
	}
	encoded := base64.StdEncoding.EncodeToString([]byte(secret))
	return append(parts, encoded[:min(len(encoded), 200)], encoded[len(encoded)/2:len(encoded)-4])
}
