package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"syscall"
	"time"
)

// etcdSocket is the socket on which etcd listens for the API server. A socket in a private folder needs neither a port nor TLS. It isn't in the
// control plane's own folder, because a socket's path is limited to about a hundred bytes and a test's temporary folder easily exceeds that.
func (c *ControlPlane) etcdSocket() string {
	return filepath.Join(c.socketDir, "etcd.sock")
}

// StartEtcd starts etcd on the data it had before, if any, and waits until it serves linearizable reads. It does nothing while etcd runs.
func (c *ControlPlane) StartEtcd(ctx context.Context) error {
	args := []string{
		"--data-dir=" + filepath.Join(c.dir, "etcd"),
		"--listen-client-urls=unix://" + c.etcdSocket(),
		// etcd does not accept a socket here. No client reads it.
		"--advertise-client-urls=http://127.0.0.1:0",
		// No peer ever connects; the kernel chooses a port.
		"--listen-peer-urls=http://127.0.0.1:0",
		// The data must survive a killed etcd, but not a lost machine.
		"--unsafe-no-fsync",
		"--log-level=warn",
	}
	return c.start(ctx, &c.etcd, c.bin.Etcd, append(args, c.opts.etcdArgs...), c.probeEtcd)
}

// StopEtcd stops etcd. The API server keeps running, reports itself not ready and fails requests that its watch cache cannot answer.
func (c *ControlPlane) StopEtcd() {
	// A graceful stop would wait five seconds for the API server to disconnect. Acknowledged writes are in its log, so SIGKILL loses nothing.
	c.etcd.Stop(time.Second)
}

// EtcdPID returns the process of etcd, for its memory.
func (c *ControlPlane) EtcdPID() int { return c.etcd.PID() }

// KillEtcd ends etcd with SIGKILL.
func (c *ControlPlane) KillEtcd() { c.etcd.Kill() }

// PauseEtcd stops etcd with SIGSTOP, like a machine whose disk hangs. Connections stay open, and nothing is answered.
func (c *ControlPlane) PauseEtcd() error { return c.etcd.Signal(syscall.SIGSTOP) }

// ResumeEtcd continues etcd after [ControlPlane.PauseEtcd].
func (c *ControlPlane) ResumeEtcd() error { return c.etcd.Signal(syscall.SIGCONT) }

// CallEtcd calls a method of etcd's JSON API, such as "/v3/maintenance/status", and returns its answer. It is for operations that Kubernetes
// doesn't offer, such as alarms and compactions.
func (c *ControlPlane) CallEtcd(ctx context.Context, path string, request any) ([]byte, error) {
	body, err := json.Marshal(request)
	if err != nil {
		return nil, fmt.Errorf("call etcd %s: %w", path, err)
	}
	return c.askEtcd(ctx, http.MethodPost, path, body, time.Minute)
}

func (c *ControlPlane) probeEtcd(ctx context.Context) error {
	_, err := c.askEtcd(ctx, http.MethodGet, "/readyz", nil, 2*time.Second)
	return err
}

func (c *ControlPlane) askEtcd(ctx context.Context, method, path string, body []byte, patience time.Duration) (answer []byte, err error) {
	defer func() {
		if err != nil {
			answer, err = nil, fmt.Errorf("call etcd %s: %w", path, err)
		}
	}()
	req, err := http.NewRequestWithContext(ctx, method, "http://etcd"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", c.etcdSocket())
	}}
	resp, err := (&http.Client{Transport: transport, Timeout: patience}).Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, answer)
	}
	return answer, err
}
