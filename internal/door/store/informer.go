package store

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
)

// NewInformer is for the options of a controller-runtime cache, in a process that runs next to the hub's API server. Its informers list
// everything again each time the API server is back after it didn't answer: the hub may have been restored from a backup, which isn't
// possible while its API server runs. It may do that while an informer pauses. So a watch that goes on compares resource versions, too: one that
// begins in the future would bring nothing until the hub is there. A member, of which there are many, reads its Lease first, and calls
// Store.Relist.
func NewInformer(lw toolscache.ListerWatcher, kind runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
	from, l := toolscache.ToListerWatcherWithContext(lw), newLink()
	return toolscache.NewSharedIndexInformer(&toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (list runtime.Object, err error) {
			options.ResourceVersion, options.ResourceVersionMatch = "", ""
			_, err = l.ask(ctx, func() (err error) { list, err = from.ListWithContext(ctx, options); return err })
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (w watch.Interface, err error) {
			goesOn := options.SendInitialEvents == nil
			if !goesOn {
				options.ResourceVersion = ""
			}
			tries, err := l.ask(ctx, func() (err error) { w, err = open(from.WatchWithContext(ctx, options)); return err })
			if err == nil && goesOn && (tries > 1 || wentBack(ctx, from, options.ResourceVersion)) {
				w.Stop()
				return nil, apierrors.NewResourceExpired("the hub was away, and may have been restored from a backup")
			}
			return w, err
		},
	}, kind, resync, indexers)
}

// ask repeats a request until it is answered, and returns how often it was sent.
func (l *link) ask(ctx context.Context, request func() error) (tries int, err error) {
	for pauses := backoff(); ; {
		err = request()
		tries++
		l.observe(ctx, err)
		if answered(err) && !apierrors.IsTooManyRequests(err) || ctx.Err() != nil {
			return tries, err
		}
		if sleep(ctx, pauses.Step()) != nil {
			return tries, err
		}
	}
}

// wentBack reports whether a hub is at an earlier resource version than it has had.
func wentBack(ctx context.Context, hub toolscache.ListerWatcherWithContext, had string) bool {
	list, err := hub.ListWithContext(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return false // the watch is about to end, too
	}
	is, err := meta.ListAccessor(list)
	if err != nil {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(is.GetResourceVersion(), had)
	return err == nil && order < 0
}
