package hubcache

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
)

// NewInformer is for the options of a controller-runtime cache, in a process that runs next to the hub's API server. Its informers list
// everything again each time the API server is back after it didn't answer: the hub may have been restored from a backup, which isn't
// possible while its API server runs. It may do that while an informer pauses. So a watch that goes on compares resource versions, too: one that
// begins in the future would bring nothing until the hub is there. A member, of which there are many, reads its Lease first, and calls
// Cache.Relist.
func NewInformer(lw toolscache.ListerWatcher, kind runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
	from, l := toolscache.ToListerWatcherWithContext(lw), newLink()
	var again time.Time // when it may list again; only the Reflector's goroutine uses it
	return toolscache.NewSharedIndexInformer(&toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (list runtime.Object, err error) {
			consistent(&options)
			err = l.ask(ctx, func() (err error) { list, err = from.ListWithContext(ctx, options); return err })
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (w watch.Interface, err error) {
			goesOn, tries := options.SendInitialEvents == nil, 0
			if !goesOn {
				consistent(&options)
				if err := sleep(ctx, time.Until(again)); err != nil {
					return nil, err
				}
				again = time.Now().Add(betweenLists)
			}
			err = l.ask(ctx, func() (err error) { tries++; w, err = open(from.WatchWithContext(ctx, options)); return err })
			if err == nil && goesOn && (tries > 1 || wentBack(ctx, from, options.ResourceVersion)) {
				w.Stop()
				return nil, apierrors.NewResourceExpired("the hub was away, and may have been restored from a backup")
			}
			return w, err
		},
	}, kind, resync, indexers)
}

// wentBack reports whether a hub is at an earlier resource version than it has had.
func wentBack(ctx context.Context, hub toolscache.ListerWatcherWithContext, had string) bool {
	list, err := hub.ListWithContext(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return false // the watch is about to end, too
	}
	is, err := meta.ListAccessor(list)
	return err == nil && before(is.GetResourceVersion(), had)
}
