package store

import (
	"context"
	"errors"
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
	// closedFor is how long a watch may be closed before it counts as lost. API servers end every watch after some minutes.
	closedFor = 10 * time.Second
	// healthyFor is how long nothing must have failed for the pauses to begin anew.
	healthyFor = 30 * time.Second
)

// feed is one Reflector: it brings the objects of its scope into the store. The store's mutex guards what changes.
type feed struct {
	toolscache.Store // nil: a Reflector asks only Stores for a Transformer, and calls no other method than a feed has
	scope
	store *Store
	stop  context.CancelFunc

	ended   bool           // what it still brings is ignored
	listing map[string]int // the bytes of each cluster in the list under way; nil: none is
	listed  bool
	lost    time.Time // when the watch was closed; zero: it is open
}

// run lists and watches until ctx ends.
func (f *feed) run(ctx context.Context) {
	logger := log.FromContext(ctx).WithName("hub").WithValues("kind", f.kind, "namespace", f.namespace)
	ctx = logr.NewContext(ctx, logger)
	reflector := toolscache.NewReflectorWithOptions(&toolscache.ListWatch{ListWithContextFunc: f.list, WatchFuncWithContext: f.watch},
		nil, f, toolscache.ReflectorOptions{Name: "hub", Logger: &logger})
	reflector.WatchListPageSize = pageSize
	pause := backoff().DelayWithReset(clock.RealClock{}, healthyFor)
	for ctx.Err() == nil {
		_ = reflector.ListAndWatchWithContext(ctx) // the link has its errors
		f.setListing(nil)
		_ = sleep(ctx, pause())
	}
}

// setListing begins or ends a list, and reports whether one was under way.
func (f *feed) setListing(to map[string]int) (was bool) {
	f.store.mu.Lock()
	defer f.store.mu.Unlock()
	was = f.listing != nil
	f.listing = to
	return was
}

// list lists a page.
func (f *feed) list(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	if options.Continue == "" {
		f.setListing(map[string]int{})
	}
	options.ResourceVersion, options.ResourceVersionMatch = "", "" // consistent: what an API server remembers may lag
	page := f.kind.list()
	err := f.store.hub.List(ctx, page, &client.ListOptions{Namespace: f.namespace, Limit: options.Limit, Continue: options.Continue, Raw: &options})
	if f.store.observe(ctx, err); err != nil {
		return nil, err
	}
	kept := &internalversion.List{ListMeta: metav1.ListMeta{ResourceVersion: page.GetResourceVersion(), Continue: page.GetContinue()}}
	return kept, meta.EachListItem(page, func(o runtime.Object) error {
		kept.Items = append(kept.Items, f.item(o.(client.Object), true))
		return nil
	})
}

// watch opens a watch. One that goes on after an earlier one is asked for until the hub no longer has its resource version: anything is cheaper
// than another list, and an API server that is just starting doesn't know its roles and kinds yet.
func (f *feed) watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	listing := options.SendInitialEvents != nil
	if listing {
		options.ResourceVersion = "" // as in list
		if f.setListing(map[string]int{}) {
			return nil, errors.New("the hub ended a list before it was complete") // pages come next, and then a pause
		}
	}
	var w watch.Interface
	err := ask(ctx, func() (err error, again bool) {
		w, err = open(f.store.hub.Watch(ctx, f.kind.list(), &client.ListOptions{Namespace: f.namespace, Raw: options.DeepCopy()}))
		f.store.observe(ctx, err)
		if listing {
			return err, unanswered(err) // after an answer, pages may do
		}
		return err, err != nil && !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err)
	})
	if err != nil {
		return nil, err
	}
	f.setLost(time.Time{})
	return opened{w, f}, nil
}

// setLost says that the watch is open, or when it was closed.
func (f *feed) setLost(at time.Time) {
	f.store.mu.Lock()
	defer f.store.mu.Unlock()
	f.lost = at
}

// NewInformer is for the options of a controller-runtime cache, in a process that runs next to the hub's API server. Its informers list everything
// again when a watch ends before its time: the hub may have been restored from a backup, which isn't possible while its API server runs, and a watch
// that begins in the future would bring nothing until the hub is there. A member, of which there are many, reads its Lease first, and calls
// Store.Relist.
func NewInformer(lw toolscache.ListerWatcher, kind runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
	from := toolscache.ToListerWatcherWithContext(lw)
	var due time.Time // when the API server ends the watch
	begin := func(ctx context.Context, options metav1.ListOptions) (w watch.Interface, err error) {
		due = time.Now().Add(time.Duration(*options.TimeoutSeconds) * time.Second)
		return open(from.WatchWithContext(ctx, options))
	}
	return toolscache.NewSharedIndexInformer(&toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (list runtime.Object, err error) {
			options.ResourceVersion, options.ResourceVersionMatch, due = "", "", time.Time{}
			err = ask(ctx, func() (_ error, again bool) {
				list, err = from.ListWithContext(ctx, options)
				return err, unanswered(err)
			})
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (w watch.Interface, err error) {
			if options.SendInitialEvents != nil {
				options.ResourceVersion = ""
				err = ask(ctx, func() (error, bool) {
					w, err = begin(ctx, options)
					return err, unanswered(err)
				})
				return w, err
			}
			if time.Now().Before(due) {
				return nil, errAway
			}
			if w, err = begin(ctx, options); err != nil {
				return nil, errAway
			}
			return w, nil
		},
	}, kind, resync, indexers)
}

// errAway makes an informer list again.
var errAway = apierrors.NewResourceExpired("the hub was away, and may have been restored from a backup")
