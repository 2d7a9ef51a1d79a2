package datapath

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/clusterset/clusterset/test/kube"
)

// The manifests of docs/recipes/nats.md make a supercluster: what is published in one cluster arrives in each other, also after a server was
// replaced and after a cluster was lost. Clients get the nearest server.
func TestNATS(t *testing.T) {
	n := newNATS(t)
	xicheng, chaoyang, minhang := n.w.cluster("xicheng"), n.w.cluster("chaoyang"), n.w.cluster("minhang")
	for _, c := range n.w.clusters {
		n.keep(c, n.manifests...)
		n.apply(c, strings.Replace(n.manifests[len(n.manifests)-1], "xicheng", c.Name, 1))
		n.run(c)
	}
	for _, c := range n.w.clusters {
		n.ready(c)
	}
	n.carries(xicheng, minhang)
	n.carries(minhang, chaoyang)
	n.served(minhang, "minhang")

	n.delete(minhang)
	n.served(minhang, "xicheng", "chaoyang")
	n.run(minhang) // with another address
	n.ready(minhang)
	n.served(minhang, "minhang")
	n.carries(xicheng, minhang)
	n.carries(minhang, chaoyang)

	xicheng.die(t)
	n.carries(chaoyang, minhang)
	n.find(xicheng)
	n.carries(xicheng, minhang)
	n.carries(minhang, xicheng)
}

// nats is the recipe's servers, with clients on the clusters' first nodes.
type nats struct{ *recipe }

func newNATS(t *testing.T) *nats {
	t.Helper()
	w := set(t)
	w.hurryHub(t)
	program := filepath.Join(t.TempDir(), "nats-server")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", program, "github.com/nats-io/nats-server/v2")
	cmd.Dir, cmd.Stderr = "nats", t.Output() // it says what it can't download
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	r := w.recipe(t, "nats.md", program)
	version, err := exec.CommandContext(t.Context(), r.program[0], "--version").Output()
	if err != nil {
		t.Fatal(err)
	}
	_, number, _ := strings.Cut(strings.TrimSpace(string(version)), ": v")
	if !strings.Contains(r.manifest(w.clusters[0], "StatefulSet"), "/nats:"+number+"\n") {
		t.Errorf("the page's image isn't %s", number)
	}
	r.manifests = append([]string{"apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}"}, r.manifests...)
	return &nats{r}
}

// natsClient is a connection that speaks https://docs.nats.io/reference/reference-protocols/nats-protocol.
type natsClient struct {
	net.Conn
	lines  *bufio.Reader
	server string // what the server says of itself
}

// connect connects to the server that the name leads to in a cluster.
func (n *nats) connect(c *cluster) (*natsClient, error) {
	conn, err := n.dialer(c)(n.Context(), "tcp", "nats.shop.svc.clusterset.local:4222")
	if err != nil {
		return nil, err
	}
	client := &natsClient{Conn: conn, lines: bufio.NewReader(conn)}
	if err = conn.SetDeadline(time.Now().Add(5 * time.Second)); err == nil {
		client.server, err = client.lines.ReadString('\n')
	}
	if err == nil {
		_, err = io.WriteString(conn, "CONNECT {\"verbose\":false}\r\n")
	}
	if err == nil {
		err = client.until("PING", "PONG")
	}
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("NATS from %s: %w", c.Name, err)
	}
	return client, nil
}

// until sends a line and reads until the server has answered with another.
func (c *natsClient) until(line, answer string) error {
	if _, err := io.WriteString(c, line+"\r\n"); err != nil {
		return err
	}
	for {
		got, err := c.lines.ReadString('\n')
		if err != nil || strings.TrimSpace(got) == answer {
			return err
		}
		if strings.HasPrefix(got, "-ERR") {
			return errors.New(got)
		}
	}
}

// carries waits until a message that is published in one cluster arrives in another.
func (n *nats) carries(from, to *cluster) {
	n.Helper()
	kube.Eventually(n, func() error {
		subscriber, err := n.connect(to)
		if err != nil {
			return err
		}
		defer func() { _ = subscriber.Close() }()
		if err := subscriber.until("SUB words 1\r\nPING", "PONG"); err != nil {
			return err
		}
		publisher, err := n.connect(from)
		if err != nil {
			return err
		}
		defer func() { _ = publisher.Close() }()
		if err := publisher.until("PUB words 5\r\nhello\r\nPING", "PONG"); err != nil {
			return err
		}
		if err := subscriber.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
			return err
		}
		if got, err := subscriber.lines.ReadString('\n'); err != nil || got != "MSG words 1 5\r\n" {
			return fmt.Errorf("from %s to %s: %q, %w", from.Name, to.Name, got, err)
		}
		return nil
	})
}

// served waits until a cluster's clients get one of these servers.
func (n *nats) served(c *cluster, servers ...string) {
	n.Helper()
	kube.Eventually(n, func() error {
		client, err := n.connect(c)
		if err != nil {
			return err
		}
		defer func() { _ = client.Close() }()
		for _, s := range servers {
			if strings.Contains(client.server, `"server_name":"`+s+`"`) {
				return nil
			}
		}
		return fmt.Errorf("%s is served by %s, want one of %q", c.Name, client.server, servers)
	})
}
