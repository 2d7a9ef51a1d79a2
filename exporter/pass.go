package exporter

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

// errBehind is why a heartbeat is delayed for a moment.
var errBehind = errors.New("the hub doesn't have all changes made while it was unreachable")

// passPatience is how long a pass waits for services that fail, for whatever reason: a webhook that is down rejects their records, or hangs.
// They must not keep the whole cluster from its heartbeats, so that it expires; their ServiceExports say what is wrong.
const passPatience = time.Minute

// exportPass queues keys, and knows when all have been reconciled with what the hub has: every service with a source here or a record on the hub. There
// is no heartbeat before the first pass is done, nor after the hub was away or restored before another is: a cluster that returns would count as
// healthy while the hub has its old endpoints.
type exportPass struct {
	keys     chan event.TypedGenericEvent[types.NamespacedName]
	finished chan struct{} // closed when the first pass is done

	mu       sync.Mutex
	pending  map[types.NamespacedName]*snapshot
	outdated int           // how many had to be given up
	over     chan struct{} // closed when nothing is pending; nil if nobody waits
}

// snapshot is what the hub itself has of a service when a pass begins. The cache may be behind.
type snapshot struct {
	Records
	tried bool
}

func newPass() *exportPass {
	return &exportPass{keys: make(chan event.TypedGenericEvent[types.NamespacedName]), finished: make(chan struct{})}
}

// begin begins a pass, and returns a channel that is closed when it is done.
func (p *exportPass) begin(pending map[types.NamespacedName]*snapshot) (over <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pending, p.outdated, p.over = pending, 0, make(chan struct{})
	over = p.over
	p.check()
	return over
}

// tried records that a service is about to be reconciled. It returns what the hub has of it, or nil if the cache says so.
func (p *exportPass) tried(key types.NamespacedName) *snapshot {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.pending[key]
	if s != nil {
		s.tried = true
	}
	return s
}

// done records that a service has been reconciled with a snapshot, unless another pass has begun meanwhile. If the hub has changed since, because
// a reconcile was under way when it was read, another pass has to look.
func (p *exportPass) done(key types.NamespacedName, with *snapshot, outdated bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if with == nil || p.pending[key] != with {
		return
	}
	if outdated {
		p.outdated++
	}
	delete(p.pending, key)
	p.check()
}

// check ends the pass if it is done. The caller holds the lock.
func (p *exportPass) check() {
	if !p.isDone() {
		metricPassPending.Set(float64(len(p.pending)))
	}
	if len(p.pending) == 0 && p.over != nil {
		close(p.over)
		p.over = nil
	}
}

// left counts the services that aren't done, and those of them that have been tried.
func (p *exportPass) left() (left, tried int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.pending {
		if s.tried {
			tried++
		}
	}
	return len(p.pending) + p.outdated, tried
}

// isDone reports whether the first pass is done.
func (p *exportPass) isDone() bool {
	select {
	case <-p.finished:
		return true
	default:
		return false
	}
}

// send queues keys, until ctx ends.
func (p *exportPass) send(ctx context.Context, keys []types.NamespacedName) {
	for _, key := range keys {
		select {
		case <-ctx.Done():
			return
		case p.keys <- event.TypedGenericEvent[types.NamespacedName]{Object: key}:
		}
	}
}

// all reconciles services and waits until that is done, for those that fail at most until a time. Otherwise the error is errBehind.
func (p *exportPass) all(ctx context.Context, services map[types.NamespacedName]*snapshot, until time.Time) error {
	keys := slices.Collect(maps.Keys(services))
	over := p.begin(services)
	sending, cancel := context.WithCancel(ctx)
	defer cancel()
	go p.send(sending, keys)
	patience := time.NewTimer(time.Until(until))
	defer patience.Stop()
	for waiting := true; waiting; {
		select {
		case <-ctx.Done():
			waiting = false
		case <-over:
			waiting = false
		case <-patience.C:
			if left, tried := p.left(); tried > 0 {
				log.FromContext(ctx).Info("Services fail; heartbeats go on without them", "services", tried, "not done", left)
				return nil
			}
			patience.Reset(time.Second)
		}
	}
	if left, _ := p.left(); left > 0 {
		return fmt.Errorf("%w: %d services wait", errBehind, left)
	}
	return nil
}

// upToDate returns once the hub has what it should of this cluster, which may not be so when the hub was away or has been restored. It reconciles
// every service with what the hub itself has. Services that fail are waited for until a minute after the hub answered first. If ctx ends before, the
// error is errBehind. One goroutine at a time may call it.
func (r *reconciler) upToDate(ctx context.Context) error {
	services, err := r.everything(ctx)
	if err != nil {
		r.behind = time.Time{}
		return err
	}
	if r.behind.IsZero() {
		r.behind = time.Now()
	}
	r.limiter.hurry()
	if err := r.pass.all(ctx, services, r.behind.Add(passPatience)); err != nil {
		return err
	}
	r.behind = time.Time{}
	return nil
}

// firstPass brings the hub up to date once both sides can be read, and closes finished.
func (r *reconciler) firstPass(ctx context.Context) error {
	said := ""
	err := wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (done bool, err error) {
		if err = errNotSynced; r.synced() {
			err = r.upToDate(ctx)
		}
		if err != nil && err.Error() != said && ctx.Err() == nil {
			said = err.Error()
			log.FromContext(ctx).WithName("first-pass").Info("Waiting for the hub before the first export pass", "reason", said)
		}
		return err == nil, nil
	})
	if err == nil {
		metricFirstPass.Set(1)
		close(r.pass.finished)
	}
	return nil //nolint:nilerr // it was stopped
}

// everything returns all services that have a ServiceExport here or a record on the hub, or of which the hub may lack that they are withdrawn, with
// what the hub itself has of them. Reads from the cache of this cluster wait until it has synced: a record must not look orphaned because its source
// hasn't been read yet.
func (r *reconciler) everything(ctx context.Context) (map[types.NamespacedName]*snapshot, error) {
	all := map[types.NamespacedName]*snapshot{}
	of := func(key types.NamespacedName) *snapshot {
		if all[key] == nil {
			all[key] = &snapshot{}
		}
		return all[key]
	}
	exports, err := r.exports.list(ctx)
	if err != nil {
		return nil, err
	}
	for _, export := range exports {
		of(client.ObjectKeyFromObject(export))
	}
	for _, key := range r.states.known() {
		of(key)
	}
	add := func(o runtime.Object) error {
		switch record := o.(type) {
		case *clustersetv1alpha1.ExportedService:
			of(keyOf(record)).Service = record
		case *clustersetv1alpha1.ExportedEndpoints:
			s := of(keyOf(record))
			s.Endpoints = append(s.Endpoints, *record)
		}
		return nil
	}
	if err := errors.Join(r.live(ctx, &clustersetv1alpha1.ExportedServiceList{}, add), r.live(ctx, &clustersetv1alpha1.ExportedEndpointsList{}, add)); err != nil {
		return nil, err
	}
	delete(all, types.NamespacedName{}) // of a name that no exporter writes
	return all, nil
}

// pageSize is how many records are read from the hub at a time.
const pageSize = 500

// live reads this cluster's records of a kind from the hub itself.
func (r *reconciler) live(ctx context.Context, kind client.ObjectList, add func(runtime.Object) error) error {
	for next := ""; ; {
		page := kind.DeepCopyObject().(client.ObjectList) //nolint:forcetypeassert // it is one
		if err := r.hub.List(ctx, page, client.InNamespace(api.MemberNamespace(r.cluster)), client.Limit(pageSize), client.Continue(next)); err != nil {
			return fmt.Errorf("list this cluster's records on the hub: %w", err)
		}
		if err := meta.EachListItem(page, add); err != nil {
			return err
		}
		if next = page.GetContinue(); next == "" {
			return nil
		}
	}
}
