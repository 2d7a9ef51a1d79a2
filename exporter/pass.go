package exporter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

// pass is a full export pass: every service with a source here or a record on the hub is reconciled once, with both sides
// known. There is no heartbeat before a process's first pass is done: a cluster that was away would count as healthy while the
// hub still has its old endpoints. Another pass follows when the hub is back after it was unreachable, or was restored.
//
// Records without a source, left by a process that died before it could remove them, are keys of the pass like any other, and
// reconciling them removes them.
type pass struct {
	keys     chan event.TypedGenericEvent[types.NamespacedName]
	finished chan struct{} // closed when the first pass is done

	mu      sync.Mutex
	pending map[types.NamespacedName]time.Time // and when it was first tried, if it was; nil before the first pass has begun
	over    chan struct{}                      // closed when the current pass is done
	// incomplete are the exported services whose records the hub may lack (rule C75 of docs/spec/control-plane.md). Importers must not take
	// the absence of such a record for an un-export, although heartbeats go on.
	incomplete sets.Set[types.NamespacedName]
}

// passPatience is how long the first pass waits for services that aren't done although they were tried, for whatever reason: a webhook
// that is down rejects their records, or hangs. They must not keep the whole cluster from its heartbeats, so that it expires; their
// ServiceExports say what is wrong. Services whose turn hasn't come are waited for, unless they wait for such a one.
const passPatience = time.Minute

// stuckAfter is how long a service isn't done for a reason that doesn't pass by itself, such as a cache that is behind.
const stuckAfter = 10 * time.Second

func newPass() *pass {
	return &pass{
		keys:       make(chan event.TypedGenericEvent[types.NamespacedName]),
		finished:   make(chan struct{}),
		incomplete: sets.New[types.NamespacedName](),
	}
}

// begin sets the pass's keys and returns a channel that is closed when it is done.
func (p *pass) begin(keys []types.NamespacedName) (over <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pending = make(map[types.NamespacedName]time.Time, len(keys))
	for _, key := range keys {
		p.pending[key] = time.Time{}
	}
	p.over = make(chan struct{})
	over = p.over
	p.check()
	return over
}

// done records that a key has been reconciled with both sides known, or as far as possible.
func (p *pass) done(key types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.pending, key)
	p.check()
}

// isDone reports whether the first pass is done.
func (p *pass) isDone() bool {
	select {
	case <-p.finished:
		return true
	default:
		return false
	}
}

// tried records that a key is about to be reconciled. Whatever becomes of it, the first pass knows since when.
func (p *pass) tried(key types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if since, pending := p.pending[key]; pending && since.IsZero() {
		p.pending[key] = time.Now()
	}
}

// giveUp ends the first pass if a key is stuck.
func (p *pass) giveUp(ctx context.Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	stuck := 0
	for _, since := range p.pending {
		if !since.IsZero() && time.Since(since) >= stuckAfter {
			stuck++
		}
	}
	if stuck == 0 || p.isDone() {
		return
	}
	log.FromContext(ctx).Info("Services fail in the first export pass; heartbeats begin without them", "services", stuck, "not done", len(p.pending))
	p.incomplete = p.incomplete.Union(sets.KeySet(p.pending))
	clear(p.pending)
	p.check()
}

// lack records whether the hub may lack records of an exported service.
func (p *pass) lack(key types.NamespacedName, lacks bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if lacks {
		p.incomplete.Insert(key)
	} else {
		p.incomplete.Delete(key)
	}
}

// maxIncomplete is how long the names of incomplete services in a heartbeat may be: the hub's policy admits no more in an annotation.
const maxIncomplete = 256

// lacking returns what a heartbeat says about the services whose records the hub may lack: those that failed, and those of a pass that
// isn't done.
func (p *pass) lacking() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var names []string
	for key := range p.incomplete.Union(sets.KeySet(p.pending)) {
		names = append(names, key.String())
	}
	slices.Sort(names)
	if text := strings.Join(names, ","); len(text) <= maxIncomplete {
		return text
	}
	return api.IncompleteAll
}

func (p *pass) check() {
	first := !p.isDone()
	if first {
		metricPassPending.Set(float64(len(p.pending)))
	}
	if len(p.pending) > 0 || p.over == nil {
		return
	}
	close(p.over)
	p.over = nil
	if first {
		metricFirstPass.Set(1)
		close(p.finished)
	}
}

// run collects the keys once both sides are reliable, and queues each.
func (p *pass) run(ctx context.Context, synced func() bool, collect func(context.Context) ([]types.NamespacedName, error)) error {
	logger := log.FromContext(ctx).WithName("first-pass")
	var said string
	var keys []types.NamespacedName
	err := wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (done bool, err error) {
		if synced() {
			keys, err = collect(ctx)
			if err != nil && err.Error() != said && ctx.Err() == nil {
				said = err.Error()
				logger.Error(err, "Can't list yet what this cluster exports, trying again")
			}
			return err == nil, nil
		}
		if said == "" {
			said = "waiting"
			logger.Info("Waiting for the hub before the first export pass")
		}
		return false, nil
	})
	if err != nil {
		return nil //nolint:nilerr // it was stopped
	}
	return p.queue(ctx, keys)
}

func (p *pass) queue(ctx context.Context, keys []types.NamespacedName) error {
	log.FromContext(ctx).Info("Beginning the first export pass", "services", len(keys))
	over := p.begin(keys)
	go p.send(ctx, keys)
	for patience := passPatience; ; patience = time.Second {
		select {
		case <-ctx.Done():
			return nil
		case <-over:
			return nil
		case <-time.After(patience):
			p.giveUp(ctx)
		}
	}
}

// send queues keys. It returns false if ctx ends before all are queued.
func (p *pass) send(ctx context.Context, keys []types.NamespacedName) bool {
	for _, key := range keys {
		select {
		case <-ctx.Done():
			return false
		case p.keys <- event.TypedGenericEvent[types.NamespacedName]{Object: key}:
		}
	}
	return true
}

// again reconciles all services once more and waits until that is done. If ctx ends first, the error is errBehind.
func (p *pass) again(ctx context.Context, keys []types.NamespacedName) error {
	over := p.begin(keys)
	if p.send(ctx, keys) {
		select {
		case <-over:
			return nil
		case <-ctx.Done():
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return fmt.Errorf("%w: %d services wait", errBehind, len(p.pending))
}

// collect returns the key of everything that has a source here or a record on the hub. Reads from a cache wait until it has
// synced: a record must not look orphaned because its source hasn't been read yet.
func (r *reconciler) collect(ctx context.Context) ([]types.NamespacedName, error) {
	exports, err := r.exports.list(ctx)
	if err != nil {
		return nil, err
	}
	keys := sets.New[types.NamespacedName]()
	for _, export := range exports {
		keys.Insert(client.ObjectKeyFromObject(export))
	}
	var services corev1.ServiceList
	if err := r.local.List(ctx, &services, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list Services: %w", err)
	}
	for i := range services.Items {
		svc := &services.Items[i]
		byNamespace, err := r.marked(ctx, svc.Namespace)
		if err != nil {
			return nil, err
		}
		if markedExport(svc, byNamespace, nil) != nil {
			keys.Insert(client.ObjectKeyFromObject(svc))
		}
	}
	var records clustersetv1alpha1.ExportedServiceList
	var endpoints clustersetv1alpha1.ExportedEndpointsList
	err = errors.Join(r.cached(ctx, &records), r.cached(ctx, &endpoints))
	for i := range records.Items {
		keys.Insert(keyOfService(&records.Items[i]))
	}
	for i := range endpoints.Items {
		keys.Insert(keyOfEndpoints(&endpoints.Items[i]))
	}
	return keys.UnsortedList(), err
}
