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

// etcdSocket is where etcd listens and the API server finds it. A socket in a
// private folder needs neither a port nor TLS. The folder is not the control
// plane's own because a socket's path may be no longer than about a hundred
// bytes, which a test's temporary folder easily is.
func (c *ControlPlane) etcdSocket() string {
	return filepath.Join(c.socketDir, "etcd.sock")
}

// StartEtcd starts etcd on the data it had before, if any, and waits until it
// serves linearizable reads. It does nothing while etcd runs.
func (c *ControlPlane) StartEtcd(ctx context.Context) error {
	args := []string{
		"--data-dir=" + filepath.Join(c.dir, "etcd"),
		"--listen-client-urls=unix://" + c.etcdSocket(),
		// etcd does not accept a socket here. Nobody reads it.
		"--advertise-client-urls=http://127.0.0.1:0",
		// No peer will ever call; the kernel picks a port.
		"--listen-peer-urls=http://127.0.0.1:0",
		// The data needs to survive a killed etcd, not a lost machine.
		"--unsafe-no-fsync",
		// A single member waits out an election with nobody: make it short.
		"--heartbeat-interval=20",
		"--election-timeout=200",
		"--log-level=warn",
	}
	return c.start(ctx, &c.etcd, c.bin.Etcd, append(args, c.opts.etcdArgs...), c.probeEtcd)
}

// StopEtcd ends etcd. The API server runs on, reports itself not ready and
// fails what it cannot answer from its watch cache.
func (c *ControlPlane) StopEtcd() {
	// It would wait five seconds for the API server to hang up. What it has
	// acknowledged is in its log, so it may as well be killed.
	c.etcd.stop(time.Second)
}

// KillEtcd ends etcd as a crash would.
func (c *ControlPlane) KillEtcd() { c.etcd.kill() }

// PauseEtcd makes etcd stand still, as a machine does whose disk hangs.
// Connections stay open, and nothing is answered.
func (c *ControlPlane) PauseEtcd() error { return c.etcd.signal(syscall.SIGSTOP) }

// ResumeEtcd lets etcd go on after [ControlPlane.PauseEtcd].
func (c *ControlPlane) ResumeEtcd() error { return c.etcd.signal(syscall.SIGCONT) }

// CallEtcd calls a method of etcd's JSON API, as "/v3/maintenance/status", and
// returns its answer. It is for what Kubernetes has no way to do: an alarm, a
// compaction.
func (c *ControlPlane) CallEtcd(ctx context.Context, path string, request any) ([]byte, error) {
	body, err := json.Marshal(request)
	if err != nil {
		return nil, fmt.Errorf("call etcd %s: %w", path, err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://etcd"+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("call etcd %s: %w", path, err)
	}
	resp, err := (&http.Client{Transport: c.etcdTransport(), Timeout: time.Minute}).Do(req)
	if err != nil {
		return nil, fmt.Errorf("call etcd %s: %w", path, err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, answer)
	}
	if err != nil {
		return nil, fmt.Errorf("call etcd %s: %w", path, err)
	}
	return answer, nil
}

func (c *ControlPlane) etcdTransport() *http.Transport {
	return &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", c.etcdSocket())
		},
	}
}

func (c *ControlPlane) probeEtcd(ctx context.Context) error {
	client := &http.Client{Transport: c.etcdTransport(), Timeout: 2 * time.Second}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://etcd/readyz", http.NoBody)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(resp.Body, 1024))
		return fmt.Errorf("get /readyz of etcd: %s: %s", resp.Status, body)
	}
	return nil
}
