package store

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	// pageSize is how many objects of a list are decoded at once.
	pageSize = 500
	// betweenLists is the shortest time between two lists of the same objects, when an API server ends each before it is complete.
	betweenLists = time.Second
	// closedFor is how long a watch may be closed before it counts as lost. API servers end every watch after some minutes.
	closedFor = 10 * time.Second
	// healthyFor is how long nothing must have failed for the pauses to begin anew.
	healthyFor = 30 * time.Second
)

// feed is one Reflector: it brings the objects of a kind in one namespace, or in all, to where they are kept.
type feed struct {
	of        *reading
	kind      kind
	namespace string

	mu       sync.Mutex
	open     int       // watches
	closed   time.Time // when the last one was
	lastList time.Time
}

// run lists and watches until ctx ends.
func (f *feed) run(ctx context.Context) {
	logger := log.FromContext(ctx).WithName("hub").WithValues("kind", f.kind.resource(), "namespace", f.namespace)
	ctx = logr.NewContext(ctx, logger)
	reflector := toolscache.NewReflectorWithOptions(&toolscache.ListWatch{ListWithContextFunc: f.list, WatchFuncWithContext: f.watch},
		&item{}, f, toolscache.ReflectorOptions{Name: "hub", Logger: &logger, Backoff: backoff()})
	reflector.WatchListPageSize = pageSize
	pause := backoff().DelayWithReset(clock.RealClock{}, healthyFor)
	for ctx.Err() == nil {
		_ = reflector.ListAndWatchWithContext(ctx) // the link has its errors
		_ = sleep(ctx, pause())
	}
}

// list lists a page.
func (f *feed) list(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	if options.Continue == "" {
		f.begin()
	}
	options.ResourceVersion, options.ResourceVersionMatch = "", "" // consistent: what an API server remembers may lag
	page, err := f.of.store.hub.list(ctx, f.kind, f.namespace, options)
	if f.of.store.link.observe(ctx, err); err != nil {
		return nil, err
	}
	of, err := meta.ListAccessor(page)
	if err != nil {
		return nil, err
	}
	kept := &internalversion.List{ListMeta: metav1.ListMeta{ResourceVersion: of.GetResourceVersion(), Continue: of.GetContinue()}}
	return kept, meta.EachListItem(page, func(o runtime.Object) error {
		if i := f.item(o.(client.Object), true); i.value != nil {
			kept.Items = append(kept.Items, i)
		}
		return nil
	})
}

// watch opens a watch. One that goes on after an earlier one is asked for until the hub no longer has its resource version: anything is cheaper
// than another list, and an API server that is just starting doesn't know its roles and kinds yet.
func (f *feed) watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	listing := options.SendInitialEvents != nil
	if listing {
		options.ResourceVersion = "" // as in list
		if err := sleep(ctx, f.untilList()); err != nil {
			return nil, err
		}
		f.begin()
	}
	for pauses := backoff(); ; {
		w, err := f.of.store.hub.watch(ctx, f.kind, f.namespace, options)
		f.of.store.link.observe(ctx, err)
		switch {
		case err == nil:
			return f.follow(w, listing), nil
		case ctx.Err() != nil || apierrors.IsResourceExpired(err) || apierrors.IsGone(err):
			return nil, err
		case listing && answered(err) && !apierrors.IsTooManyRequests(err):
			return nil, err // pages may do
		}
		if sleep(ctx, pauses.Step()) != nil {
			return nil, err
		}
	}
}

// untilList returns how long to wait before a list, and counts on it that it comes.
func (f *feed) untilList() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	wait := max(0, time.Until(f.lastList.Add(betweenLists)))
	f.lastList = time.Now().Add(wait)
	return wait
}

// watched reports whether the feed is being watched. A watch that has just ended and is about to be opened again counts.
func (f *feed) watched() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.open > 0 || time.Since(f.closed) <= closedFor
}

func (f *feed) opened(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open += n
	f.closed = time.Now()
}
