package chaos

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/test/fleet"
	"github.com/clusterset/clusterset/test/fleettest"
)

// touched records traffic that felt the current fault. A fault that nothing felt shows nothing, so inject fails then.
func (c *run) touched(format string, args ...any) {
	c.felt = append(c.felt, fmt.Sprintf(format, args...))
}

// links records what the links' conditions have done since the fault began.
func (c *run) links() {
	if n := c.wires.disturbed() - c.disturbed; n > 0 {
		c.touched("%d pieces of data or connections were held up, broken or refused", n)
	}
}

// silenced waits until ask gets no answer within a second.
func (c *run) silenced(who string, ask func(context.Context) error) {
	c.Helper()
	c.until(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if ask(ctx) == nil {
			return fmt.Errorf("%s still answers", who)
		}
		return nil
	})
	c.touched("%s didn't answer", who)
}

// metricsSilenced waits until a process doesn't serve its metrics any more.
func (c *run) metricsSilenced(who string, s *fleet.Metrics) {
	c.Helper()
	c.silenced(who, func(ctx context.Context) error {
		_, err := s.Read(ctx)
		return err
	})
}

// dnsSilenced waits until the victim's DNS server doesn't answer any more.
func (c *run) dnsSilenced() {
	c.Helper()
	c.silenced("the DNS server", func(ctx context.Context) error {
		_, err := askOnce(ctx, c.victim.DNS.Addr(), question{"clusterset.local", "SOA"}, time.Second)
		return err
	})
}

// writesSilenced waits until users can't write to a cluster.
func (c *run) writesSilenced(of *fleettest.Cluster) {
	c.Helper()
	c.silenced("a user who writes to the API server", func(ctx context.Context) error { return stir(ctx, of) })
}

// stir changes an annotation of the namespaces lab and default, so that all clients that watch namespaces get an event.
func stir(ctx context.Context, of *fleettest.Cluster) error {
	var namespaces corev1.NamespaceList
	if err := of.Client.List(ctx, &namespaces); err != nil {
		return err
	}
	for i := range namespaces.Items {
		if ns := &namespaces.Items[i]; strings.HasPrefix(ns.Name, "lab") || ns.Name == "default" {
			change := fmt.Sprintf(`{"metadata":{"annotations":{"clusterset-test/stirred":%q}}}`, time.Now().Format(time.RFC3339Nano))
			if err := of.Client.Patch(ctx, ns, client.RawPatch("application/merge-patch+json", []byte(change))); err != nil {
				return err
			}
		}
	}
	return nil
}
