package exporter

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
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

// pass queues keys, and knows when all have been reconciled with both sides known: every service with a source here or a record on the hub. There
// is no heartbeat before the first pass is done, nor after the hub was away or restored before another is: a cluster that returns would count as
// healthy while the hub has its old endpoints.
type pass struct {
	keys     chan event.TypedGenericEvent[types.NamespacedName]
	finished chan struct{} // closed when the first pass is done

	mu      sync.Mutex
	round   int                           // the number of passes that have begun
	pending map[types.NamespacedName]bool // what the last one waits for, and whether it has been tried
	over    chan struct{}                 // closed when nothing is pending; nil if nobody waits
	unread  map[types.NamespacedName]unread
}

// recordName is the kind and name of a record of ours.
type recordName struct{ kind, name string }

// unread are the records of a service that the cache doesn't have as the hub has them, and whether the hub has them at all: the cache is behind, or
// doesn't select a record, because its labels are gone.
type unread map[recordName]bool

func newPass() *pass {
	return &pass{keys: make(chan event.TypedGenericEvent[types.NamespacedName]), finished: make(chan struct{})}
}

// begin begins a pass, and returns a channel that is closed when it is done.
func (p *pass) begin(keys sets.Set[types.NamespacedName], unread map[types.NamespacedName]unread) (over <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.round++
	p.pending, p.unread, p.over = make(map[types.NamespacedName]bool, len(keys)), unread, make(chan struct{})
	for key := range keys {
		p.pending[key] = false
	}
	over = p.over
	p.check()
	return over
}

// tried records that a key is about to be reconciled. It returns which of its records have to be read from the hub itself, and what done needs.
func (p *pass) tried(key types.NamespacedName) (read unread, round int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, pending := p.pending[key]; pending {
		p.pending[key] = true
	}
	return p.unread[key], p.round
}

// done records that a key has been reconciled with both sides known, unless another pass has begun meanwhile. A service that the hub refuses is as
// done as it can be: it must not hold back the whole cluster's heartbeat.
func (p *pass) done(key types.NamespacedName, round int, refused bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if round != p.round {
		return
	}
	if !refused {
		delete(p.unread, key)
	}
	delete(p.pending, key)
	p.check()
}

// check ends the pass if it is done. The caller holds the lock.
func (p *pass) check() {
	if !p.isDone() {
		metricPassPending.Set(float64(len(p.pending)))
	}
	if len(p.pending) == 0 && p.over != nil {
		close(p.over)
		p.over = nil
	}
}

// stuck counts the services that have been tried and aren't done, and all that aren't.
func (p *pass) stuck() (stuck, pending int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, tried := range p.pending {
		if tried {
			stuck++
		}
	}
	return stuck, len(p.pending)
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

// all reconciles services and waits until that is done, for those that fail at most until a time. If ctx ends first, the error is errBehind.
func (p *pass) all(ctx context.Context, keys sets.Set[types.NamespacedName], unread map[types.NamespacedName]unread, until time.Time) error {
	over := p.begin(keys, unread)
	sending, cancel := context.WithCancel(ctx)
	defer cancel()
	go p.send(sending, keys.UnsortedList())
	patience := time.NewTimer(time.Until(until))
	defer patience.Stop()
	for {
		select {
		case <-ctx.Done():
			_, pending := p.stuck()
			return fmt.Errorf("%w: %d services wait", errBehind, pending)
		case <-over:
			return nil
		case <-patience.C:
			if stuck, pending := p.stuck(); stuck > 0 {
				log.FromContext(ctx).Info("Services fail; heartbeats go on without them", "services", stuck, "not done", pending)
				return nil
			}
			patience.Reset(time.Second)
		}
	}
}

// upToDate returns once the hub has what it should of this cluster, which may not be so when the hub was away or has been restored. It compares
// the cache with what the hub has, and reconciles every service. Services that fail are waited for until a minute after the hub answered first. If ctx
// ends before, the error is errBehind. One goroutine at a time may call it.
func (r *reconciler) upToDate(ctx context.Context) error {
	unread, err := r.findUnread(ctx)
	var keys sets.Set[types.NamespacedName]
	if err == nil {
		keys, err = r.collect(ctx)
	}
	if err != nil {
		r.behind = time.Time{}
		return err
	}
	if r.behind.IsZero() {
		r.behind = time.Now()
	}
	for key := range unread {
		keys.Insert(key)
	}
	keys.Insert(r.states.known()...) // the hub may lack that they are withdrawn
	r.limiter.hurry()
	if err := r.pass.all(ctx, keys, unread, r.behind.Add(passPatience)); err != nil {
		return err
	}
	r.behind = time.Time{}
	return nil
}

// firstPass brings the hub up to date once both sides can be read, and closes finished.
func (r *reconciler) firstPass(ctx context.Context) error {
	logger := log.FromContext(ctx).WithName("first-pass")
	said := ""
	say := func(message string) {
		if said != message && ctx.Err() == nil {
			said = message
			logger.Info("Waiting for the hub before the first export pass", "reason", message)
		}
	}
	err := wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (done bool, err error) {
		if !r.synced() {
			say("it hasn't been read")
			return false, nil
		}
		if err = r.upToDate(ctx); err != nil {
			say(err.Error())
		}
		return err == nil, nil
	})
	if err == nil {
		metricFirstPass.Set(1)
		close(r.pass.finished)
	}
	return nil //nolint:nilerr // it was stopped
}

// collect returns the key of everything that has a source here or a record in the cache of the hub. Reads from a cache wait until it has
// synced: a record must not look orphaned because its source hasn't been read yet.
func (r *reconciler) collect(ctx context.Context) (sets.Set[types.NamespacedName], error) {
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
	records, endpoints := r.onHub.OwnRecords()
	for _, s := range records {
		keys.Insert(keyOfService(s))
	}
	for _, e := range endpoints {
		keys.Insert(keyOfEndpoints(e))
	}
	return keys, nil
}

// findUnread lists the metadata of our records on the hub, and returns those that the cache has otherwise, or only one of both has.
func (r *reconciler) findUnread(ctx context.Context) (map[types.NamespacedName]unread, error) {
	live := map[recordName]string{} // and their resource versions
	for _, kind := range []string{kindService, kindEndpoints} {
		var list metav1.PartialObjectMetadataList
		list.SetGroupVersionKind(clustersetv1alpha1.GroupVersion.WithKind(kind + "List"))
		if err := r.hub.List(ctx, &list, client.InNamespace(api.MemberNamespace(r.cluster))); err != nil {
			return nil, fmt.Errorf("list %s: %w", kind, err)
		}
		for i := range list.Items {
			live[recordName{kind, list.Items[i].Name}] = versionOf(&list.Items[i])
		}
	}
	services, endpoints := r.onHub.OwnRecords()
	cached := map[recordName]string{}
	for _, s := range services {
		cached[recordName{kindService, s.Name}] = versionOf(s)
	}
	for _, e := range endpoints {
		cached[recordName{kindEndpoints, e.Name}] = versionOf(e)
	}
	differ := map[types.NamespacedName]unread{}
	for at, version := range live {
		has, known := cached[at]
		if !known {
			signal(r.unseen)
		}
		if has != version {
			cached[at] = ""
		} else {
			delete(cached, at)
		}
	}
	for at := range cached {
		if key, ok := at.key(); ok {
			if differ[key] == nil {
				differ[key] = unread{}
			}
			_, differ[key][at] = live[at]
		}
	}
	return differ, nil
}

// versionOf identifies the content of a record, also on a hub that was restored.
func versionOf(o metav1.Object) string { return string(o.GetUID()) + " " + o.GetResourceVersion() }

// key returns the service that a record is about, by the record's name.
func (r recordName) key() (types.NamespacedName, bool) {
	namespace, name, ok := api.ParseExportedServiceName(r.name)
	if r.kind == kindEndpoints {
		namespace, name, _, ok = api.ParseExportedEndpointsName(r.name)
	}
	return types.NamespacedName{Namespace: namespace, Name: name}, ok
}

func signal(to chan<- struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}
