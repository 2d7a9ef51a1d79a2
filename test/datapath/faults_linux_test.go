package datapath

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/test/kube"
)

// Functions below that cleanups call use context.Background(), because the test's context has ended by then.

// clusterset runs a command of the CLI on the hub.
func (w *world) clusterset(t testing.TB, args ...string) {
	t.Helper()
	args = append(args, "--hub-kubeconfig", w.hub.Plane.Kubeconfig())
	if out, err := w.bin.Command(context.Background(), w.dir, args...).CombinedOutput(); err != nil {
		t.Errorf("clusterset %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// hurryHub makes the hub suspect and expire silent clusters sooner, until the end of the test.
func (w *world) hurryHub(t *testing.T) {
	t.Helper()
	restart := func(flags ...string) {
		t.Helper()
		w.hub.Process.Stop()
		w.hub.Flags = flags
		if err := w.hub.Process.Start(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { restart() })
	restart("--suspect-after", "10s", "--expire-after", "20s")
}

// startHub starts the hub's API server, if it doesn't run.
func (w *world) startHub(t *testing.T) {
	t.Helper()
	if err := w.hub.Plane.StartAPIServer(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// eventuallyPhase waits until every other cluster sees the cluster in the phase.
func (w *world) eventuallyPhase(t *testing.T, of *cluster, want clustersetv1alpha1.MemberClusterPhase) {
	t.Helper()
	for _, at := range w.clusters {
		if at != of {
			kube.Eventually(t, func() error { return phaseIs(at.Cluster, of.Name, want) })
		}
	}
}

// restartAgent restarts the cluster's agent with these flags in addition to the usual ones.
func (c *cluster) restartAgent(t *testing.T, flags ...string) {
	t.Helper()
	c.Agent.Stop()
	c.AgentFlags = flags
	c.startAgent(t)
}

func (c *cluster) startAgent(t *testing.T) {
	t.Helper()
	if err := c.Agent.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// die simulates a power failure of all nodes of the cluster, one of which runs its agent, until reconnect and startAgent are called or the
// test ends.
func (c *cluster) die(t *testing.T) {
	t.Helper()
	c.Agent.Kill()
	c.reconnect = c.network.filter(t, c.Name, fmt.Sprintf("iifname node-%[1]d-* drop\noifname node-%[1]d-* drop\n", c.number))
	t.Cleanup(func() {
		c.reconnect()
		c.startAgent(t)
	})
}

// unready marks a pod as not ready in a cluster's imported EndpointSlices.
func (s *service) unready(cluster string, p *pod) {
	s.Helper()
	c := s.w.cluster(cluster)
	var all discoveryv1.EndpointSliceList
	if err := c.Client.List(s.Context(), &all, client.InNamespace(s.namespace)); err != nil {
		s.Fatal(err)
	}
	for i := range all.Items {
		slice := &all.Items[i]
		if !strings.HasPrefix(slice.Name, "imported-") {
			continue
		}
		for j := range slice.Endpoints {
			if e := &slice.Endpoints[j]; slices.Contains([]string{p.v4.String(), p.v6.String()}, e.Addresses[0]) {
				e.Conditions.Ready = new(bool)
			}
		}
		if err := c.Client.Update(s.Context(), slice); err != nil {
			s.Fatal(err)
		}
	}
}
