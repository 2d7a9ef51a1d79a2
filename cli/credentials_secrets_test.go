package cli

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/clusterset/clusterset/test/kube"
)

// neverDisclosed searches all output, and all objects except Secrets, for the credentials.
func (w *credentials) neverDisclosed(t *testing.T) {
	// Run what users may type, with credentials that work, that don't work, and that are malformed.
	revoked := filepath.Join(t.TempDir(), "revoked")
	if err := os.WriteFile(revoked, []byte(withToken(t, w.installed(t), w.secrets[0])), 0o600); err != nil {
		t.Fatal(err)
	}
	local := []string{"--kubeconfig", w.member.Kubeconfig()}
	for _, hub := range append([]string{w.kubeconfig, revoked, w.hub.Kubeconfig()}, w.broken(t)...) {
		onHub := []string{"--hub-kubeconfig", hub}
		for _, args := range [][]string{
			{"status", "-o", "wide"},
			{"status", "-o", "yaml"},
			{"explain", "shop/web"},
			{"doctor", "-o", "json"},
		} {
			w.hear(t, append(append(args, local...), onHub...)...)
		}
		w.hear(t, append([]string{"drain", "nobody"}, onHub...)...)
		w.hear(t, append([]string{"leave", "nobody"}, onHub...)...)
		w.hear(t, "status", "--kubeconfig", hub)
		if hub != w.kubeconfig && hub != w.hub.Kubeconfig() { // a join that succeeds prints credentials on purpose
			w.hear(t, append([]string{"join", "lyon"}, onHub...)...)
			w.hear(t, append([]string{"join", "lyon", "--install-crds"}, onHub...)...)
		}
	}
	for _, broken := range w.broken(t) {
		w.hear(t, "member", "--hub-kubeconfig", broken, "--cluster", "beijing", "--log-level", "debug", "--kubeconfig", filepath.Join(t.TempDir(), "none"))
		w.hear(t, "hub", "--kubeconfig", broken, "--log-level", "debug")
	}
	w.hear(t, append([]string{"join", "--rejoin", "--hub-kubeconfig", w.hub.Kubeconfig(), "beijing"}, local...)...)
	w.keep(tokenOf(t, w.installed(t)))

	metrics, err := w.metrics.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]string{"a process or command": w.logs(), "the agent's metrics": string(metrics)}
	events := 0
	for where, plane := range map[string]*kube.ControlPlane{"the hub's ": w.hub, "the member's ": w.member} {
		for name, o := range everything(t, plane) {
			if o.GetKind() == "Secret" {
				continue
			}
			content, err := json.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			if said[where+name] = string(content); o.GetKind() == "Event" {
				events++
			}
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
	// Check that the search finds what it should: the kubeconfig that join prints on purpose contains the token.
	finds := slices.ContainsFunc(partsOf(w.secrets[0]), func(part string) bool { return strings.Contains(withToken(t, w.installed(t), w.secrets[0]), part) })
	if !finds || !strings.Contains(said["a process or command"], "level=DEBUG") || events == 0 {
		t.Error("the test looks at too little: debug logs, Events or the secrets themselves are missing")
	}
}

// hear runs a command and records its output. The command may fail.
func (w *credentials) hear(t *testing.T, args ...string) {
	t.Helper()
	isAgent := args[0] == "member" || args[0] == "hub"
	wait := time.Minute // a command ends by itself; on a busy machine it takes a while
	if isAgent {
		wait = 2 * time.Second // if the agent doesn't notice a mistake, it keeps running
	}
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()
	var stdout, stderr bytes.Buffer
	code := run(ctx, args, &stdout, &stderr)
	_, _ = fmt.Fprintf(w.outputs[0], "$ clusterset %s (exit code %d)\n%s%s", strings.Join(args, " "), code, stdout.String(), stderr.String())
	if code != 0 && !isAgent && strings.Count(stderr.String(), "\n") != 1 {
		t.Errorf("clusterset %s: the error isn't one line: %q", strings.Join(args, " "), stderr.String())
	}
}

// broken returns kubeconfigs with mistakes. Each still contains the token.
func (w *credentials) broken(t *testing.T) []string {
	t.Helper()
	content := w.installed(t)
	token := tokenOf(t, content)
	dir := t.TempDir()
	var paths []string
	for name, text := range map[string]string{
		"truncated":     content[:strings.Index(content, token)+len(token)-7],
		"a list":        strings.Replace(content, token, "["+token+"]", 1),
		"unquoted":      strings.Replace(content, token, token+": : {", 1),
		"the token":     token,
		"a token as CA": strings.Replace(content, "certificate-authority-data: ", "certificate-authority-data: "+token+" #", 1),
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

// partsOf returns the parts by which a credential can be recognised. Of a token, these are the payload and the signature, without which it
// is worthless. Of a key, they are the lines of its body. The base64 form is included, because Secrets and kubeconfigs contain it.
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
