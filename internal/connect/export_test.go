package connect

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Exported for tests that use package join, which imports this package.

func (c *Connection) Current() (token string, kubeconfig []byte) { return c.current() }

func (r *Renewer) Renew(ctx context.Context, hub client.Client) (bool, error) {
	return r.renew(ctx, hub)
}

func (c *Connection) Heard(date string) { c.heard(date) }

func ParseToken(token string) (claims, bool) { return parseToken(token) }
