package store

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
)

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
