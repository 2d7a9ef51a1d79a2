package connect

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Exported for tests that use package join, which imports this package.

func (c *Connection) Current() (token string, kubeconfig []byte) { return c.current() }

func (c *Connection) IsAged(age time.Duration) { c.issued = time.Now().Add(-age) }

func (r *Renewer) Renew(ctx context.Context, hub client.Client) (bool, error) {
	return r.renew(ctx, hub)
}

func ParseToken(token string) (claims, bool) { return parseToken(token) }
