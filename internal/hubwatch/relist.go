package hubwatch

import (
	"context"
	"errors"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// annotationUnseen marks, in memory only, the deletion of an object that was missing from a list.
	annotationUnseen = "hubwatch.clusterset.dev/unseen"
	// betweenRelists is the shortest time between two lists of one informer, for a server that accepts no resumed watch.
	betweenRelists = time.Second
	// applied is how long an informer may take to apply an event, and applyPoll how often that is checked.
	applied, applyPoll = 10 * time.Second, 5 * time.Millisecond
)

// NewInformer is for a cache's options. Its informers relist at once when a watch can't be resumed. client-go's informers first wait for a
// second, then twice as long each time, up to a minute, and get no events meanwhile. That is right for a failing server. But here the
// agent itself ends the watches, each time the hub was restored or another namespace becomes relevant.
//
// Such a watch first delivers everything that exists, and then the deletion of what no longer exists; see Unseen.
func NewInformer(lw cache.ListerWatcher, kind runtime.Object, resync time.Duration, indexers cache.Indexers) cache.SharedIndexInformer {
	from := cache.ToListerWatcherWithContext(lw)
	r := &relister{from: from}
	informer := cache.NewSharedIndexInformer(
		&cache.ListWatch{ListWithContextFunc: from.ListWithContext, WatchFuncWithContext: r.watch}, kind, resync, indexers)
	r.known = informer.GetIndexer()
	return informer
}

// Unseen reports whether an object's deletion was inferred because it was missing from a list.
func Unseen(deleted client.Object) bool {
	_, unseen := deleted.GetAnnotations()[annotationUnseen]
	return unseen
}

// relister opens an informer's watches.
type relister struct {
	from  cache.ListerWatcherWithContext
	known cache.Indexer // what the informer has
	last  time.Time     // when everything was listed; only the informer's goroutine uses it
}

func (r *relister) watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	w, err := r.from.WatchWithContext(ctx, options)
	if !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
		return w, err
	}
	if stopped := sleep(ctx, betweenRelists-time.Since(r.last)); stopped != nil {
		return nil, errors.Join(stopped, err)
	}
	r.last = time.Now()
	if options.SendInitialEvents != nil {
		return nil, err // no API server refuses a list so, but the informer repeats it without a pause
	}
	all := true
	options.ResourceVersion, options.ResourceVersionMatch, options.SendInitialEvents = "", metav1.ResourceVersionMatchNotOlderThan, &all
	whole, refused := r.from.WatchWithContext(ctx, options)
	if refused != nil {
		return nil, err // the informer falls back to another way to list
	}
	l := &relisted{known: r.known, from: whole, events: make(chan watch.Event), done: make(chan struct{})}
	go l.run()
	return l, nil
}

// relisted is a watch that begins with everything that exists.
type relisted struct {
	known  cache.Indexer
	from   watch.Interface
	events chan watch.Event
	once   sync.Once
	done   chan struct{}
}

// ResultChan implements watch.Interface.
func (l *relisted) ResultChan() <-chan watch.Event { return l.events }

// Stop implements watch.Interface.
func (l *relisted) Stop() { l.once.Do(func() { close(l.done) }) }

func (l *relisted) send(e watch.Event) bool {
	select {
	case <-l.done:
		return false
	case l.events <- e:
		return true
	}
}

func (l *relisted) run() {
	defer close(l.events)
	defer l.from.Stop()
	if !l.list() {
		// The informer has the resource version of an arbitrary object, and must not resume from it.
		gone := apierrors.NewResourceExpired("the list of everything ended early").Status()
		l.send(watch.Event{Type: watch.Error, Object: &gone})
		return
	}
	for {
		select {
		case <-l.done:
			return
		case e, ok := <-l.from.ResultChan():
			if !ok || !l.send(e) {
				return
			}
		}
	}
}

// list passes on what exists, and the deletion of what no longer exists. It returns false if it fails.
func (l *relisted) list() bool {
	there := map[client.ObjectKey]bool{}
	var last client.Object
	for {
		var e watch.Event
		var ok bool
		select {
		case <-l.done:
			return false
		case e, ok = <-l.from.ResultChan():
		}
		o, isObject := e.Object.(client.Object)
		if !ok || !isObject {
			return false
		}
		key := client.ObjectKeyFromObject(o)
		switch e.Type {
		case watch.Added, watch.Modified:
			there[key], last = true, o
		case watch.Deleted:
			delete(there, key)
			last = nil
		case watch.Bookmark:
			if o.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true" {
				return l.settle(last) && l.missing(there, o.GetResourceVersion()) && l.send(e)
			}
		}
		if !l.send(e) {
			return false
		}
	}
}

// settle returns once the informer has applied the event of that object and all events before it, including those of an earlier watch for
// objects that the list no longer has.
func (l *relisted) settle(o client.Object) bool {
	if o == nil {
		return true
	}
	tick := time.NewTicker(applyPoll)
	defer tick.Stop()
	for began := time.Now(); time.Since(began) < applied; {
		has, ok, err := l.known.Get(o)
		if is, object := has.(client.Object); err == nil && ok && object && is.GetUID() == o.GetUID() && is.GetResourceVersion() == o.GetResourceVersion() {
			return true
		}
		select {
		case <-l.done:
			return false
		case <-tick.C:
		}
	}
	return false
}

// missing sends a deletion for each object that the informer has but that no longer exists, as of a resource version.
func (l *relisted) missing(there map[client.ObjectKey]bool, version string) bool {
	for _, has := range l.known.List() {
		o, ok := has.(client.Object)
		if !ok || there[client.ObjectKeyFromObject(o)] {
			continue
		}
		o = o.DeepCopyObject().(client.Object)
		o.SetResourceVersion(version)
		annotations := map[string]string{annotationUnseen: ""}
		for k, v := range o.GetAnnotations() {
			annotations[k] = v
		}
		o.SetAnnotations(annotations)
		if !l.send(watch.Event{Type: watch.Deleted, Object: o}) {
			return false
		}
	}
	return true
}
