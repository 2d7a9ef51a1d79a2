package kube

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
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
	return c.start(ctx, &c.etcd, c.bin.Etcd, []string{
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
	}, c.probeEtcd)
}

// StopEtcd ends etcd. The API server runs on, reports itself not ready and
// fails what it cannot answer from its watch cache.
func (c *ControlPlane) StopEtcd() {
	// It would wait five seconds for the API server to hang up. What it has
	// acknowledged is in its log, so it may as well be killed.
	c.etcd.stop(time.Second)
}

func (c *ControlPlane) probeEtcd(ctx context.Context) error {
	tr := &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", c.etcdSocket())
		},
	}
	client := &http.Client{Transport: tr, Timeout: 2 * time.Second}
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
