package importer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

const (
	// trustFor is how long one good answer of the hub holds, so that a thousand un-exports at once don't mean a thousand
	// questions from each member. An API server doesn't come back with an empty etcd within it.
	trustFor = time.Second
	// askTimeout bounds the question.
	askTimeout = 10 * time.Second
	// heldRetry is when a service whose deletion was held back is looked at again.
	heldRetry = 15 * time.Second
	// unexportedRetry is the same while our own exports are under way.
	unexportedRetry = time.Second
)

// errUnexported is why nothing is deleted at the start. It passes by itself.
var errUnexported = errors.New("this cluster's own exports are not on the hub yet")

// retryAfter is when to look again at what mayDelete refused.
func retryAfter(err error) time.Duration {
	if errors.Is(err, errUnexported) {
		return unexportedRetry
	}
	return heldRetry
}

// hubGuard decides whether something missing from the hub's caches is reason to delete. That the caches have synced isn't
// enough: a hub whose etcd came back empty syncs too, and its watches tell of the deletion of everything, one kind after
// the other. So before anything is taken away the hub is asked whether it still knows this member. One that doesn't answer,
// or that is no longer the hub we joined, deletes nothing.
type hubGuard struct {
	cache client.Reader
	// live reads from the hub's API server, not from a cache.
	live    client.Reader
	cluster string
	clock   clock.PassiveClock
	// exported is closed once our own exports are on the hub; nil: they are. A hub that lost its data and was joined anew
	// doesn't have them, and they mustn't be taken for un-exported in the moment before it has.
	exported <-chan struct{}
	// changed is called when the hub is found incomplete, and when it is found complete again, with nil.
	changed func(context.Context, error)

	mu     sync.Mutex
	goodAt time.Time
	held   bool
}

// mayDelete returns nil if the hub can be trusted to be complete, else why not.
func (g *hubGuard) mayDelete(ctx context.Context) error {
	if g.exported != nil {
		select {
		case <-g.exported:
		default:
			return errUnexported
		}
	}
	err := g.complete(ctx)
	if ctx.Err() != nil {
		return err // we are being stopped, which says nothing about the hub
	}
	g.mu.Lock()
	changed := g.held != (err != nil)
	g.held = err != nil
	g.mu.Unlock()
	if changed && g.changed != nil {
		g.changed(ctx, err)
	}
	return err
}

func (g *hubGuard) complete(ctx context.Context) error {
	if err := g.knowsUs(ctx, g.cache); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.goodAt.IsZero() && g.clock.Since(g.goodAt) < trustFor {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if err := g.knowsUs(ctx, g.live); err != nil {
		return err
	}
	g.goodAt = g.clock.Now()
	return nil
}

func (g *hubGuard) knowsUs(ctx context.Context, hub client.Reader) error {
	err := hub.Get(ctx, client.ObjectKey{Name: g.cluster}, &clustersetv1alpha1.MemberCluster{})
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("the hub has no MemberCluster %s: it is empty, or this cluster has left", g.cluster)
	case err != nil:
		return fmt.Errorf("get MemberCluster %s from the hub: %w", g.cluster, err)
	}
	return nil
}
