package connect

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// For the tests that need package join, which depends on this one.

func (c *Connection) Current() (token string, kubeconfig []byte) { return c.current() }

func (r *Renewer) Renew(ctx context.Context, hub client.Client) (bool, error) {
	return r.renew(ctx, hub)
}

func ParseToken(token string) (claims, bool) { return parseToken(token) }
