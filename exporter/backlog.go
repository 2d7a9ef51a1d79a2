package exporter

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

// maxBackoff is the longest wait before a service that failed is tried again. controller-runtime's own is a quarter of an hour,
// which a hub that was away for as long would cost on top.
const maxBackoff = 30 * time.Second

// errBehind is why a heartbeat is held back for a moment.
var errBehind = errors.New("the hub doesn't have all that changed while it was out of reach")

// backlog is the services whose records couldn't be written. They are tried again by themselves, after a pause that has grown
// with the time the hub was out of reach; catchUp has them tried at once.
type backlog struct {
	mu   sync.Mutex
	keys map[types.NamespacedName]bool
}

// note says whether a service's records are behind.
func (b *backlog) note(key types.NamespacedName, behind bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case !behind:
		delete(b.keys, key)
	case b.keys == nil:
		b.keys = map[types.NamespacedName]bool{key: true}
	default:
		b.keys[key] = true
	}
}

func (b *backlog) list() []types.NamespacedName {
	b.mu.Lock()
	defer b.mu.Unlock()
	keys := make([]types.NamespacedName, 0, len(b.keys))
	for key := range b.keys {
		keys = append(keys, key)
	}
	return keys
}

// catchUp has everything of the backlog tried again and waits until that is done. Where it isn't when ctx ends the error is
// errBehind.
func (b *backlog) catchUp(ctx context.Context, queue chan<- event.TypedGenericEvent[types.NamespacedName]) error {
	for _, key := range b.list() {
		select {
		case <-ctx.Done():
			return errBehind
		case queue <- event.TypedGenericEvent[types.NamespacedName]{Object: key}:
		}
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		left := len(b.list())
		if left == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %d services wait", errBehind, left)
		case <-tick.C:
		}
	}
}
