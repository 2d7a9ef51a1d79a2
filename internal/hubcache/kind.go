package hubcache

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/clusterset/clusterset/internal/packed"
)

// kind holds the objects of one kind. It is an informer (cache.Informer) whose handlers are called one at a time, while the store changes:
// they must not block.
type kind struct {
	cache    *Cache
	rest     rest.Interface
	resource schema.GroupVersionResource
	example  client.Object
	store    toolscache.Indexer
	quota    *quota        // nil: none
	synced   chan struct{} // closed when all has been read once

	mu       sync.Mutex
	feeds    map[string]*feed // by namespace
	ownRead  time.Time        // when what isn't optional was read first
	handlers []*registration
}

// registration is a handler.
type registration struct {
	toolscache.ResourceEventHandler
	*kind
}

func newKind(c *Cache, of rest.Interface, resource schema.GroupVersionResource, example client.Object) *kind {
	return &kind{
		cache: c, rest: of, resource: resource, example: example, synced: make(chan struct{}), feeds: map[string]*feed{},
		store: packed.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc}),
	}
}

func (k *kind) list(ctx context.Context, f *feed, options metav1.ListOptions) (runtime.Object, error) {
	return k.request(f, options).Do(ctx).Get()
}

func (k *kind) watch(ctx context.Context, f *feed, options metav1.ListOptions) (watch.Interface, error) {
	options.Watch = true
	return k.request(f, options).Watch(ctx)
}

func (k *kind) request(f *feed, options metav1.ListOptions) *rest.Request {
	options.LabelSelector = f.selector
	return k.rest.Get().NamespaceIfScoped(f.namespace, f.namespace != "").Resource(k.resource.Resource).VersionedParams(&options, metav1.ParameterCodec)
}

// want makes the kind have exactly these namespaces with this selector; "" is all namespaces, and the first isn't optional. Feeds that are
// as wanted stay, unless anew is set: then all begin again, and if suspect is set too, because the hub may have gone back. What is in the store
// stays until a list of its namespace is complete, unless that isn't wanted any more.
func (k *kind) want(ctx context.Context, namespaces []string, selector string, anew, suspect bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	was := k.feeds
	k.feeds = map[string]*feed{}
	g := newGroup()
	for i, namespace := range namespaces {
		f := was[namespace]
		if f == nil || f.selector != selector || anew {
			f = k.feed(ctx, namespace, selector, i > 0, f, anew, suspect, g)
		}
		k.feeds[namespace] = f
	}
	if len(g.feeds) > 0 {
		time.AfterFunc(time.Until(g.until), func() { k.giveUp(g) })
	}
	for namespace, f := range was {
		if k.feeds[namespace] == f {
			delete(was, namespace)
			continue
		}
		f.stopped = true
		k.count(f)
		f.stop()
	}
	for _, f := range was {
		k.show(f.group) // those that stay don't wait for them any more
	}
	if k.feeds[""] == nil {
		for _, namespace := range k.store.ListIndexFuncValues(toolscache.NamespaceIndex) {
			if k.feeds[namespace] == nil {
				gone := k.missing(namespace, nil)
				k.count(nil, gone...)
				k.tell(false, gone...)
			}
		}
	}
	k.check()
}

// feed starts a feed in place of another, or of none.
func (k *kind) feed(ctx context.Context, namespace, selector string, optional bool, was *feed, anew, suspect bool, g *group) *feed {
	f := &feed{kind: k, namespace: namespace, selector: selector, optional: optional, suspect: suspect, closed: time.Now()}
	if k.HasSynced() && (!anew || was != nil && was.group != nil) { // else nobody has seen the cache yet, or nothing new is wanted
		g.add(f, was)
	}
	if was != nil && !suspect {
		f.version, f.suspect = was.version, was.suspect && !was.read
		f.again = was.again
	}
	ctx, f.stop = context.WithCancel(ctx)
	f.ended = ctx.Done()
	k.cache.running.Go(func() { f.run(ctx) })
	return f
}

// change is a change of the store: was is nil if the object is new, is if it is gone.
type change struct {
	was, is any
	unseen  bool // the object was missing in a list
}

// put stores an object.
func (k *kind) put(f *feed, o any) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if f.stopped {
		return nil
	}
	c, changed, err := k.set(o, false)
	if changed {
		k.count(nil, c)
		k.tell(!k.HasSynced(), c)
	}
	return err
}

// set stores an object. It is changed if its resource version is, or if anyway is set. The caller has locked k.
func (k *kind) set(o any, anyway bool) (c change, changed bool, err error) {
	was, known, err := k.store.Get(o)
	if err != nil || known && !anyway && same(was.(client.Object), o.(client.Object)) {
		return c, false, err
	}
	return change{was: was, is: o}, true, k.store.Update(o)
}

func same(a, b client.Object) bool {
	return a.GetUID() == b.GetUID() && a.GetResourceVersion() == b.GetResourceVersion()
}

// remove removes an object whose deletion the hub reported.
func (k *kind) remove(f *feed, o any) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	was, known, err := k.store.Get(o)
	if f.stopped || err != nil {
		return err
	}
	if !known {
		if k.quota != nil {
			k.quota.use(o.(client.Object).GetNamespace(), 0) // it may have been what was left out
		}
		return nil
	}
	k.count(nil, change{was: was})
	err = k.store.Delete(o)
	k.tell(false, change{was: o}) // as it was at the end: it says whether its exporter withdrew it
	return err
}

// replace makes a feed's part of the store equal to a complete list. The caller has locked k, and tells the changes.
func (k *kind) replace(f *feed, all []any, version string) (changes []change, err error) {
	if before(version, f.version) {
		f.suspect = true
		k.cache.wentBack() // before anyone acts on what follows
	}
	there := make(map[string]bool, len(all))
	var errs []error
	for _, o := range all {
		key, err := toolscache.MetaNamespaceKeyFunc(o)
		there[key] = true
		c, changed, failed := k.set(o, f.suspect)
		if changed {
			changes = append(changes, c)
		}
		errs = append(errs, err, failed)
	}
	changes = append(changes, k.missing(f.namespace, there)...)
	k.count(f, changes...)
	f.version, f.read, f.suspect = version, true, false
	if !f.optional && k.ownRead.IsZero() {
		k.ownRead = time.Now()
		time.AfterFunc(patience, func() {
			k.mu.Lock()
			defer k.mu.Unlock()
			k.check()
		})
	}
	k.check()
	return changes, errors.Join(errs...)
}

// missing removes the objects of a namespace that aren't there. The caller has locked k.
func (k *kind) missing(namespace string, there map[string]bool) (changes []change) {
	var keys []string
	if namespace == "" {
		keys = k.store.ListKeys()
	} else {
		keys, _ = k.store.IndexKeys(toolscache.NamespaceIndex, namespace) // the index exists
	}
	for _, key := range keys {
		if there[key] {
			continue
		}
		if o, known, err := k.store.GetByKey(key); known && err == nil && k.store.Delete(o) == nil {
			changes = append(changes, change{was: o, unseen: true})
		}
	}
	return changes
}

// tell calls the handlers. The caller has locked k.
func (k *kind) tell(initial bool, changes ...change) {
	for _, c := range changes {
		for _, h := range k.handlers {
			switch {
			case c.was == nil:
				h.OnAdd(c.is, initial)
			case c.is != nil:
				h.OnUpdate(c.was, c.is)
			case c.unseen:
				h.OnDelete(toolscache.DeletedFinalStateUnknown{Obj: c.was})
			default:
				h.OnDelete(c.was)
			}
		}
	}
}

// reached records that a feed has all changes up to a resource version.
func (k *kind) reached(f *feed, version string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f.version = version
}

// refuse records that a feed couldn't be read. It logs each new reason, unless all that is needed is another list.
func (k *kind) refuse(ctx context.Context, f *feed, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if f.refused = true; !expired(err) && f.said != err.Error() {
		f.said = err.Error()
		log.FromContext(ctx).Info("Can't read the hub", "reason", f.said)
	}
	k.check()
}

// listing returns how long a feed has to wait before it lists, and counts on it that it does.
func (k *kind) listing(f *feed) time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.count(f)
	wait := max(0, time.Until(f.again))
	f.again = time.Now().Add(wait + betweenLists)
	return wait
}

// opened counts a feed's open watches.
func (k *kind) opened(f *feed, n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f.open += n
	f.closed, f.said = time.Now(), ""
}

// check ends the first reading once nothing more is waited for. The caller has locked k.
func (k *kind) check() {
	if len(k.feeds) == 0 || k.HasSynced() {
		return
	}
	late := !k.ownRead.IsZero() && time.Since(k.ownRead) >= patience
	for _, f := range k.feeds {
		if !f.read && (!f.optional || !f.refused && !late) {
			return
		}
	}
	close(k.synced)
}

// of returns the feed that reads a namespace, nil if none does. The caller has locked k.
func (k *kind) of(namespace string) *feed {
	if f := k.feeds[""]; f != nil {
		return f
	}
	return k.feeds[namespace]
}

// watched reports whether what isn't optional is being watched.
func (k *kind) watched() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, f := range k.feeds {
		if !f.optional && f.open == 0 && time.Since(f.closed) > closedFor {
			return false
		}
	}
	return len(k.feeds) > 0
}

// AddEventHandler implements cache.Informer. Before it returns, the handler gets all objects that there are. The deletion of an object that
// was missing in a list is a toolscache.DeletedFinalStateUnknown.
func (k *kind) AddEventHandler(h toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	r := &registration{h, k}
	k.handlers = append(k.handlers, r)
	for _, o := range k.store.List() {
		h.OnAdd(o, true)
	}
	return r, nil
}

// AddEventHandlerWithResyncPeriod implements cache.Informer. There are no resyncs.
func (k *kind) AddEventHandlerWithResyncPeriod(h toolscache.ResourceEventHandler, _ time.Duration) (toolscache.ResourceEventHandlerRegistration, error) {
	return k.AddEventHandler(h)
}

// AddEventHandlerWithOptions implements cache.Informer.
func (k *kind) AddEventHandlerWithOptions(h toolscache.ResourceEventHandler, _ toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	return k.AddEventHandler(h)
}

// RemoveEventHandler implements cache.Informer.
func (k *kind) RemoveEventHandler(r toolscache.ResourceEventHandlerRegistration) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.handlers = slices.DeleteFunc(k.handlers, func(h *registration) bool { return toolscache.ResourceEventHandlerRegistration(h) == r })
	return nil
}

// AddIndexers implements cache.Informer.
func (k *kind) AddIndexers(indexers toolscache.Indexers) error { return k.store.AddIndexers(indexers) }

// GetIndexer is for an Index.
func (k *kind) GetIndexer() toolscache.Indexer { return k.store }

// HasSynced implements cache.Informer.
func (k *kind) HasSynced() bool { return toolscache.IsDone(k) }

// HasSyncedChecker implements cache.Informer.
func (k *kind) HasSyncedChecker() toolscache.DoneChecker { return k }

// Name implements toolscache.DoneChecker.
func (k *kind) Name() string { return "hub " + reflect.TypeOf(k.example).Elem().Name() }

// Done implements toolscache.DoneChecker.
func (k *kind) Done() <-chan struct{} { return k.synced }

// IsStopped implements cache.Informer.
func (k *kind) IsStopped() bool { return false }
