package hubcache

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
)

// NewInformer is for the options of a controller-runtime cache, in a process that runs next to the hub's API server. Its informers list
// everything again each time the API server is back after it didn't answer: the hub may have been restored from a backup, which isn't
// possible while its API server runs. A member, of which there are many, reads its Lease first, and calls Cache.Relist.
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
			if err == nil && tries > 1 && goesOn {
				w.Stop()
				return nil, apierrors.NewResourceExpired("the hub was away, and may have been restored from a backup")
			}
			return w, err
		},
	}, kind, resync, indexers)
}
