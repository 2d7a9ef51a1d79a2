package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/clusterset/clusterset/test/freeport"
	"github.com/clusterset/clusterset/test/kube"
)

// Rule C74 of docs/spec/control-plane.md: an agent that is installed before join waits, is ready and says so.
func TestAgentWaitsForItsCredentials(t *testing.T) {
	m := &member{hubSecret: "clusterset-system/clusterset-hub-credentials", hubKubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	m.probes = "127.0.0.1:" + freeport.For(t)
	ended := make(chan error, 1)
	go func() { ended <- m.awaitCredentials(t.Context()) }()
	for _, probe := range []string{"/healthz", "/readyz"} {
		kube.Eventually(t, func() error {
			reply, err := http.Get("http://" + m.probes + probe)
			if err != nil {
				return err
			}
			defer func() { _ = reply.Body.Close() }()
			text, err := io.ReadAll(reply.Body)
			if err == nil && (reply.StatusCode != http.StatusOK || !strings.Contains(string(text), "waiting for credentials")) {
				err = fmt.Errorf("%s: %s, %q", probe, reply.Status, text)
			}
			return err
		})
	}
	select {
	case err := <-ended:
		t.Fatalf("it ended without a file: %v", err)
	default:
	}
	if err := os.WriteFile(m.hubKubeconfig, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if answer, err := http.Get("http://" + m.probes + "/readyz"); err == nil {
		_ = answer.Body.Close()
		t.Error("the manager can't have the port")
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	m.hubKubeconfig += ".never"
	if err := m.awaitCredentials(ctx); err != nil {
		t.Errorf("stopped while it waits: %v", err)
	}
}

// The same rule: a file that a person names must be there.
func TestAgentWithoutASecretDoesNotWait(t *testing.T) {
	m := &member{hubKubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	m.kubeconfig = filepath.Join(t.TempDir(), "none")
	if err := os.WriteFile(m.kubeconfig, []byte("{apiVersion: v1, kind: Config, clusters: [{name: a, cluster: {server: 'http://127.0.0.1:1'}}], contexts: [{name: a, context: {cluster: a}}], current-context: a}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := m.run(t.Context()); err == nil || !strings.Contains(err.Error(), "there is no hub kubeconfig") {
		t.Error(err)
	}
}
