package cli

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/clusterset/clusterset/internal/connect"
)

// awaitCredentials waits until `clusterset join` has written the hub's kubeconfig, so that an agent can be installed first. Meanwhile the probes
// succeed and say so: an installation that waits for ready pods would else wait for the join that comes after it (C74).
func (m *member) awaitCredentials(ctx context.Context) error {
	if _, err := os.Stat(m.hubKubeconfig); err == nil {
		return nil
	}
	const waiting = "waiting for credentials for the hub"
	log.Log.Info("Waiting for credentials for the hub; make this cluster a member with clusterset join", "secret", m.hubSecret, "file", m.hubKubeconfig)
	if m.probes != "0" {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", m.probes)
		if err != nil {
			return fmt.Errorf("--health-probe-bind-address: %w", err)
		}
		server := &http.Server{ReadHeaderTimeout: 5 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, waiting+"\n")
		})}
		go func() { _ = server.Serve(l) }()
		defer func() { _ = server.Close() }()
	}
	connect.Await(ctx, m.hubKubeconfig)
	return nil
}
