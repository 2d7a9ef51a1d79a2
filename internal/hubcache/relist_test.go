package hubcache

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

// An informer beside the hub's API server reads a restored hub again, although nobody tells it; while the hub is up it lists once.
func TestInformerListsWhenTheHubIsBack(t *testing.T) {
	streamsOrLists(t, func(t *testing.T, hub *aHub) {
		// A kind that runs no feeds has the requests.
		k := start(t, hub).records[0]
		f := &feed{kind: k}
		informer := NewInformer(&toolscache.ListWatch{
			ListWithContextFunc:  func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return k.list(ctx, f, o) },
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) { return k.watch(ctx, f, o) },
		}, &clustersetv1alpha1.ExportedService{}, 0, nil)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); informer.RunWithContext(ctx) }()
		t.Cleanup(func() { cancel(); <-done; synctest.Wait() })
		k.store = informer.GetIndexer()
		has := func(what string, within time.Duration) {
			t.Helper()
			elapse(within)
			if got, want := (&reader{Cache: k.cache}).stored(), hub.has(nsA, nsB, nsC, nsD); !slices.Equal(got, want) {
				t.Fatalf("%s:\n has %v\nwant %v", what, got, want)
			}
		}
		has("at first", time.Second)
		hub.asked(services)
		hub.put(nsA, "new")
		hub.endWatches()
		has("after a watch", time.Second)
		if got := hub.asked(services); !slices.Equal(got, []string{"list", "watch"}) { // of one object
			t.Errorf("the hub was asked for %q", got)
		}
		restore := hub.backup()
		hub.put(nsB, "new")
		elapse(time.Minute)
		for range 3 {
			hub.stop()
			restore()
			elapse(3 * time.Minute)
			hub.start()
			has("restored", 4*time.Second)
		}
		restore = hub.backup()
		hub.put(nsB, "newer")
		has("changed", time.Minute)
		restore() // within a pause of the informer
		hub.endWatches()
		has("restored, and no request failed", 4*time.Second)
	})
}

// An API server that answers every request with 410 gets a list a second from each watch, although a Reflector would repeat it at once.
func TestListsThatExpireAreRepeatedSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := filled()
		hub.status = http.StatusGone
		r := read(t, hub)
		f := &feed{kind: r.records[0]}
		informer := NewInformer(&toolscache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return f.kind.list(ctx, f, o) },
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				return f.kind.watch(ctx, f, o)
			},
		}, &clustersetv1alpha1.ExportedService{}, 0, nil)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); informer.RunWithContext(ctx) }()
		t.Cleanup(func() { cancel(); <-done; synctest.Wait() })
		elapse(10 * time.Minute)
		if n := len(hub.asked(services)); n < 2*300 || n > 2*601 {
			t.Errorf("%d requests of two in ten minutes", n)
		}
		hub.start()
		r.has("it is over", 2*time.Second, nsA, nsB, nsC, nsD)
		r.epoch("it is over", 0)
	})
}

// What client-go does with watches that can't be opened.
func TestOpen(t *testing.T) {
	if w, err := open(watch.NewEmptyWatch(), nil); w != nil || err == nil {
		t.Errorf("a watch that has ended before it began is %v, %v", w, err)
	}
	fake := watch.NewFake()
	if w, err := open(fake, nil); w != fake || err != nil {
		t.Errorf("an open watch is %v, %v", w, err)
	}
	if _, err := open(nil, io.EOF); !errors.Is(err, io.EOF) {
		t.Errorf("an error is %v", err)
	}
}
