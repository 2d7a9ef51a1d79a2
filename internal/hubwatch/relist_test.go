package hubwatch

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// past is an API server whose watches can't be resumed. Each list has the current objects.
type past struct {
	mu    sync.Mutex
	there []*corev1.ConfigMap
	open  *watch.FakeWatcher
	lists int
	early bool // whether the next list ends before it is complete
}

func configMap(name, uid string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(uid), ResourceVersion: uid}}
}

func (p *past) ListWithContext(context.Context, metav1.ListOptions) (runtime.Object, error) {
	return nil, apierrors.NewMethodNotSupported(corev1.Resource("configmaps"), "list")
}

func (p *past) List(options metav1.ListOptions) (runtime.Object, error) {
	return p.ListWithContext(context.Background(), options)
}

func (p *past) Watch(options metav1.ListOptions) (watch.Interface, error) {
	return p.WatchWithContext(context.Background(), options)
}

func (p *past) WatchWithContext(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
	if options.SendInitialEvents == nil {
		return nil, apierrors.NewResourceExpired("that was another hub")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lists++
	p.open = watch.NewFakeWithChanSize(100, false)
	for _, o := range p.there {
		p.open.Add(o.DeepCopy())
	}
	if p.early {
		p.early = false
		p.open.Stop()
	} else {
		end := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "1000", Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}}
		p.open.Action(watch.Bookmark, end)
	}
	return p.open, nil
}

// become replaces the current objects and ends the watch.
func (p *past) become(early bool, there ...*corev1.ConfigMap) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.there, p.early = there, early
	p.open.Stop()
}

func (p *past) now() *watch.FakeWatcher {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.open
}

func (p *past) listed() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lists
}

// However often a watch can't be resumed, the informer knows the current objects at once, and deletes missing ones, which count as unseen.
// client-go's own informer takes a minute or more for that.
func TestRelistsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &past{there: []*corev1.ConfigMap{configMap("a", "1"), configMap("b", "2")}}
		informer := NewInformer(server, &corev1.ConfigMap{}, 0, cache.Indexers{})
		var mu sync.Mutex
		var deleted []string
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{DeleteFunc: func(o any) {
			mu.Lock()
			defer mu.Unlock()
			if missing, ok := o.(cache.DeletedFinalStateUnknown); ok { // client-go's form
				deleted = append(deleted, missing.Obj.(client.Object).GetName()+", unseen")
			} else if o := o.(client.Object); Unseen(o) {
				deleted = append(deleted, o.GetName()+", unseen")
			} else {
				deleted = append(deleted, o.GetName())
			}
		}}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		stopped := make(chan struct{})
		go func() { defer close(stopped); informer.RunWithContext(ctx) }()
		expect := func(within time.Duration, gone []string, want ...string) {
			t.Helper()
			elapse(within)
			var has []string
			for _, o := range informer.GetStore().List() {
				o := o.(*corev1.ConfigMap)
				has = append(has, o.Name+o.ResourceVersion)
			}
			slices.Sort(has)
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(has, want) || !slices.Equal(deleted, gone) {
				t.Errorf("it has %v, want %v; deleted %v, want %v", has, want, deleted, gone)
			}
			deleted = nil
		}
		expect(2*time.Second, nil, "a1", "b2")
		for range 10 {
			server.become(false, configMap("b", "2"), configMap("c", "1")) // c is new although its version is lower than b's, as on a restored hub
			expect(2*betweenRelists, []string{"a, unseen"}, "b2", "c1")
			server.become(false, configMap("a", "1"), configMap("b", "2"))
			expect(2*betweenRelists, []string{"c, unseen"}, "a1", "b2")
		}
		server.now().Delete(configMap("a", "7"))
		expect(time.Second, []string{"a"}, "b2")
		server.become(false)
		expect(2*betweenRelists, []string{"b, unseen"})

		// A watch's last event is processed before the list that follows, so the object is known and then deleted.
		server.now().Add(configMap("d", "8"))
		server.become(false, configMap("e", "9"))
		expect(2*betweenRelists, []string{"d, unseen"}, "e9")

		// If a list ends early, nothing is deleted because of it, and no watch resumes from it. Another list follows.
		lists := server.listed()
		server.become(true, configMap("f", "10"))
		expect(time.Minute, []string{"e, unseen"}, "f10")
		if n := server.listed() - lists; n != 2 {
			t.Errorf("%d lists, want one that ends early and another", n)
		}
		cancel()
		<-stopped
	})
}

// elapse advances the fake clock, and waits for everything due by then.
func elapse(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // synctest's clock
	synctest.Wait()
}

// expiring answers every watch with "expired", including those that list.
type expiring struct {
	past
	asked atomic.Int32
	stop  func()
}

func (e *expiring) WatchWithContext(context.Context, metav1.ListOptions) (watch.Interface, error) {
	if e.asked.Add(1) > 1000 {
		e.stop()
	}
	return nil, apierrors.NewResourceExpired("everything has")
}

// A proxy that answers everything with "expired" gets about one request per second. client-go's informers would repeat a list by watch as
// fast as it is answered.
func TestListsThatExpireAreRepeatedSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		server := &expiring{stop: cancel}
		informer := NewInformer(server, &corev1.ConfigMap{}, 0, cache.Indexers{})
		stopped := make(chan struct{})
		go func() { defer close(stopped); informer.RunWithContext(ctx) }()
		elapse(time.Minute)
		cancel()
		<-stopped
		if n := server.asked.Load(); n < 5 || n > 70 {
			t.Errorf("%d requests in a minute", n)
		}
	})
}
