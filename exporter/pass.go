package exporter

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

// pass is the first full export pass of a process: every service that has a source here or a record on the hub is
// reconciled once, with both sides known. Until it is done there is no heartbeat: a cluster that was away would be taken
// for healthy while the hub still has its endpoints of back then.
//
// Records without a source, left by a process that died before it could remove them, are keys of the pass like any
// other, and reconciling them removes them.
type pass struct {
	keys     chan event.TypedGenericEvent[types.NamespacedName]
	finished chan struct{}

	mu      sync.Mutex
	pending map[types.NamespacedName]bool // nil before the pass has begun
	closed  bool
}

func newPass() *pass {
	return &pass{
		keys:     make(chan event.TypedGenericEvent[types.NamespacedName]),
		finished: make(chan struct{}),
	}
}

// begin sets what the pass consists of.
func (p *pass) begin(keys map[types.NamespacedName]bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pending = keys
	p.check()
}

// done says that a key has been reconciled with both sides known, or as far as it ever will.
func (p *pass) done(key types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pending == nil || p.closed {
		return
	}
	delete(p.pending, key)
	p.check()
}

func (p *pass) check() {
	metricPassPending.Set(float64(len(p.pending)))
	if len(p.pending) == 0 && !p.closed {
		p.closed = true
		metricFirstPass.Set(1)
		close(p.finished)
	}
}

// run collects the keys, once both sides can be believed, and queues each.
func (p *pass) run(ctx context.Context, cluster string, exports exports, hub client.Reader, synced func() bool) error {
	logger := log.FromContext(ctx).WithName("first-pass")
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var said string
	for {
		if synced() {
			keys, err := collect(ctx, cluster, exports, hub)
			if err == nil {
				return p.queue(ctx, keys)
			}
			if err.Error() != said && ctx.Err() == nil {
				said = err.Error()
				logger.Error(err, "Can't tell yet what this cluster exports, trying on")
			}
		} else if said == "" {
			said = "waiting"
			logger.Info("Waiting for the hub before the first export pass")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (p *pass) queue(ctx context.Context, keys map[types.NamespacedName]bool) error {
	all := make([]types.NamespacedName, 0, len(keys))
	for key := range keys {
		all = append(all, key)
	}
	log.FromContext(ctx).Info("Beginning the first export pass", "services", len(all))
	p.begin(keys)
	for _, key := range all {
		select {
		case <-ctx.Done():
			return nil
		case p.keys <- event.TypedGenericEvent[types.NamespacedName]{Object: key}:
		}
	}
	return nil
}

// collect returns the key of everything that has a source here or a record on the hub. Reads from a cache wait until it
// has synced; a record must not look orphaned because we haven't read yet what it stands for.
func collect(ctx context.Context, cluster string, exports exports, hub client.Reader) (map[types.NamespacedName]bool, error) {
	keys := make(map[types.NamespacedName]bool)
	exported, err := exports.keys(ctx)
	if err != nil {
		return nil, err
	}
	for _, key := range exported {
		keys[key] = true
	}
	var services corev1.ServiceList
	if err := exports.client.List(ctx, &services); err != nil {
		return nil, fmt.Errorf("list Services: %w", err)
	}
	for i := range services.Items {
		if svc := &services.Items[i]; markedExport(svc, nil) != nil {
			keys[client.ObjectKeyFromObject(svc)] = true
		}
	}

	own := client.InNamespace(api.MemberNamespace(cluster))
	var records clustersetv1alpha1.ExportedServiceList
	if err := hub.List(ctx, &records, own); err != nil {
		return nil, fmt.Errorf("list ExportedServices: %w", err)
	}
	for i := range records.Items {
		keys[keyOfService(&records.Items[i])] = true
	}
	var endpoints clustersetv1alpha1.ExportedEndpointsList
	if err := hub.List(ctx, &endpoints, own); err != nil {
		return nil, fmt.Errorf("list ExportedEndpoints: %w", err)
	}
	for i := range endpoints.Items {
		keys[keyOfEndpoints(&endpoints.Items[i])] = true
	}
	return keys, nil
}
