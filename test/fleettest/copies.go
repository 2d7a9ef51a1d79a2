package fleettest

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/cli/join"
	"github.com/clusterset/clusterset/test/fleet"
)

// Replica returns a second agent of the member.
func (m *Member) Replica() *Member {
	return m.on(m.Base.Replica("second agent"))
}

// Replica returns a second hub process.
func (h *Hub) Replica(flags ...string) *Hub {
	second := newHub(h.Base.Replica(flags...))
	second.TB = h.TB
	return second
}

// Cloned returns a clone of this cluster: an API server on a copy of its etcd, and an agent with its credentials that isn't
// started yet.
func (m *Member) Cloned() *Member {
	m.Helper()
	c := m.on(fleet.NewMember(m.TempDir(), Binaries(), m.Base.Location))
	m.Plane.StopAPIServer()
	m.Plane.StopEtcd()
	err := os.CopyFS(filepath.Join(c.Dir, "etcd"), os.DirFS(filepath.Join(m.Dir, "etcd")))
	if err = errors.Join(err, m.Plane.StartEtcd(context.Background())); err != nil {
		m.Fatal(err)
	}
	m.StartAPIServer()
	m.startCopy(c)
	m.Cleanup(c.Stop)
	m.Cleanup(c.KillAgent)
	return c
}

// Copied returns a second cluster that is created from this one's manifests. It has the same name, the same credentials, and
// an agent that isn't started yet. The caller must call its KillAgent and Stop.
func (m *Member) Copied() *Member {
	m.Helper()
	c := m.on(fleet.NewMember(m.TempDir(), Binaries(), m.Base.Location))
	m.startCopy(c)
	c.Apply("{apiVersion: v1, kind: Namespace, metadata: {name: " + api.SystemNamespace + "}}")
	var secret corev1.Secret
	err := m.Get(api.SystemNamespace, api.HubSecret, &secret)
	secret.ObjectMeta = metav1.ObjectMeta{Namespace: secret.Namespace, Name: secret.Name}
	err = errors.Join(err, join.InstallMemberCRDs(context.Background(), join.At(c.Plane.Config())), c.Client.Create(context.Background(), &secret))
	if err != nil {
		m.Fatal(err)
	}
	c.Apply(string(fleet.Rights("member")))
	return c
}

// startCopy starts the API server of a second cluster, and gives that cluster this one's credentials for the hub.
func (m *Member) startCopy(c *Member) {
	m.Helper()
	content, err := os.ReadFile(m.Base.HubKubeconfig)
	if err = errors.Join(err, os.WriteFile(c.Base.HubKubeconfig, content, 0o600), c.launch(context.Background())); err != nil {
		m.Fatal(err)
	}
}
