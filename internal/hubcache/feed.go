package hubcache

import (
	"context"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	// betweenLists is the shortest time between two lists of the same objects: because other namespaces are wanted, or because an API
	// server ends each before it is complete.
	betweenLists = time.Second
	// patience is how long a cache that has read the member's own records waits for its peers' before it counts as read.
	patience = 10 * time.Second
	// closedFor is how long a watch may be closed before it counts as lost. API servers end every watch after some minutes.
	closedFor = 10 * time.Second
)

// feed brings the objects of a kind in one namespace, or in all, into the store. It is one Reflector. A feed is never changed: another
// selection has another feed, which takes over what is in the store.
type feed struct {
	kind      *kind
	namespace string // "" is all
	selector  string
	// optional means that the right to read it may come later: a peer's namespace.
	optional bool
	stop     context.CancelFunc
	ended    <-chan struct{} // closed by stop

	// The kind's mutex guards what follows.

	stopped bool
	again   time.Time // when it may be listed again
	version string    // how far it has been read, in this epoch
	suspect bool      // the first list may have other content under known resource versions
	read    bool      // the first list is complete
	refused bool      // it couldn't be read
	said    string    // why it can't be read, once that has been logged; "": it can
	group   *group    // whose first lists are shown with its own; nil: none
	listed  *list     // waits for the group's others
	open    int       // watches
	// reserved is what a list under way has, in bytes by namespace, that isn't stored yet.
	reserved map[string]int
	closed   time.Time
}

// run lists and watches until ctx ends. The first list comes at once, and so does the next one after a watch that lived for some time. If
// lists fail, or watches after them can't go on, pauses double.
func (f *feed) run(ctx context.Context) {
	logger := log.FromContext(ctx).WithName("hub").WithValues("kind", f.kind.resource.Resource, "namespace", f.namespace)
	ctx = log.IntoContext(ctx, logger)
	reflector := toolscache.NewReflectorWithOptions(&toolscache.ListWatch{ListWithContextFunc: f.list, WatchFuncWithContext: f.watch},
		f.kind.example, f, toolscache.ReflectorOptions{Name: "hub", Logger: &logger})
	pause := retryAfter
	for ctx.Err() == nil {
		began := time.Now()
		err := reflector.ListAndWatchWithContext(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			f.kind.refuse(ctx, f, err)
		}
		if time.Since(began) >= retryMost {
			pause = 0
		}
		if pause > 0 && sleep(ctx, jittered(pause)) != nil {
			return
		}
		pause = min(max(2*pause, retryAfter), retryMost)
	}
}

// list lists a page.
func (f *feed) list(ctx context.Context, options metav1.ListOptions) (page runtime.Object, err error) {
	if options.Continue == "" {
		f.kind.release(f)
	}
	consistent(&options)
	err = f.kind.cache.link.ask(ctx, func() (err error) { page, err = f.kind.list(ctx, f, options); return err })
	if err != nil {
		return nil, err
	}
	items, err := meta.ExtractList(page)
	if err != nil {
		return nil, err
	}
	return page, meta.SetList(page, slices.DeleteFunc(items, func(o runtime.Object) bool { return !f.admits(o.(client.Object), true) }))
}

// watch opens a watch. One that goes on after an earlier one is repeated until the hub no longer has its resource version: anything is
// cheaper than another list, and an API server that is just starting doesn't know its roles and kinds yet.
func (f *feed) watch(ctx context.Context, options metav1.ListOptions) (w watch.Interface, err error) {
	if options.SendInitialEvents != nil {
		consistent(&options)
		if err := sleep(ctx, f.kind.listing(f)); err != nil {
			return nil, err
		}
	}
	for pause := retryAfter; ; pause = min(2*pause, retryMost) {
		err = f.kind.cache.link.ask(ctx, func() (err error) { w, err = open(f.kind.watch(ctx, f, options)); return err })
		if err == nil {
			f.kind.opened(f, 1)
			o := &opened{Interface: w, events: make(chan watch.Event), done: make(chan struct{})}
			o.end = sync.OnceFunc(func() { f.kind.opened(f, -1); close(o.done) })
			go o.run(f, options.SendInitialEvents != nil)
			return o, nil
		}
		if options.SendInitialEvents != nil || expired(err) || ctx.Err() != nil {
			return nil, err
		}
		f.kind.refuse(ctx, f, err)
		if sleep(ctx, jittered(pause)) != nil {
			return nil, err
		}
	}
}

// consistent makes a list consistent. A Reflector's first list may come from the memory of an API server, which lags behind; then an earlier
// resource version would not prove that the hub went back. A later list wants at least the version that it has had, for which a hub that went
// back lets it wait.
func consistent(options *metav1.ListOptions) {
	options.ResourceVersion = ""
	if options.SendInitialEvents == nil {
		options.ResourceVersionMatch = ""
	}
}

func expired(err error) bool { return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) }

// opened is an open watch.
type opened struct {
	watch.Interface
	events chan watch.Event // without what isn't admitted to a list
	done   chan struct{}    // closed when it is stopped
	end    func()
}

// ResultChan implements watch.Interface.
func (o *opened) ResultChan() <-chan watch.Event { return o.events }

func (o *opened) run(f *feed, listing bool) {
	defer close(o.events)
	for e := range o.Interface.ResultChan() {
		object, isObject := e.Object.(client.Object)
		switch {
		case isObject && (e.Type == watch.Added || e.Type == watch.Modified):
			if listing && !f.admits(object, true) {
				continue
			}
		case e.Type == watch.Bookmark:
			listing = false
		}
		select {
		case o.events <- e:
		case <-o.done:
			return
		}
	}
}

// Stop implements watch.Interface. A Reflector stops every watch, also those that ended.
func (o *opened) Stop() {
	o.end()
	o.Interface.Stop()
}

// A feed is its Reflector's store.

// Add implements toolscache.ReflectorStore.
func (f *feed) Add(o any) error { return f.Update(o) }

// Update implements toolscache.ReflectorStore.
func (f *feed) Update(o any) error {
	if !f.admits(o.(client.Object), false) {
		return nil
	}
	return f.kind.put(f, o)
}

// Delete implements toolscache.ReflectorStore.
func (f *feed) Delete(o any) error { return f.kind.remove(f, o) }

// Replace implements toolscache.ReflectorStore. It waits for the feed's group.
func (f *feed) Replace(all []any, version string) error {
	return f.kind.listedBy(f, &list{all, version})
}

// Resync implements toolscache.ReflectorStore.
func (f *feed) Resync() error { return nil }

// UpdateResourceVersion implements toolscache.ResourceVersionUpdater: it is called after each event, bookmarks included.
func (f *feed) UpdateResourceVersion(version string) { f.kind.reached(f, version) }

// before reports whether one resource version is earlier than another. Versions that can't be compared aren't.
func before(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}
