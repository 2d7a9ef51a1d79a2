// Package follow tells of the changes of a kind of objects in a cache.
package follow

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Changes calls do once the objects of a kind have been read, and after each change of them, until ctx ends. One call may be for many changes.
// It waits for as long as the objects can't be read.
func Changes(ctx context.Context, c cache.Cache, kind client.Object, do func()) error {
	changes := make(chan struct{}, 1)
	signal := func() {
		select {
		case changes <- struct{}{}:
		default: // do is due already, and will see the latest state
		}
	}
	tell := toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { signal() }, UpdateFunc: func(any, any) { signal() }, DeleteFunc: func(any) { signal() },
	}
	var synced func() bool
	_ = wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		informer, err := c.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
		if err != nil {
			return false, nil //nolint:nilerr // it is tried again
		}
		registration, err := informer.AddEventHandler(tell)
		if err == nil {
			synced = registration.HasSynced
		}
		return err == nil, nil
	})
	if ctx.Err() == nil && toolscache.WaitForCacheSync(ctx.Done(), synced) {
		signal()
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-changes:
			do()
		}
	}
}
