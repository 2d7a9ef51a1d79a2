package store

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

// An informer beside the hub's API server reads a restored hub again, although nobody tells it. A watch that lasts for its time goes on.
func TestInformerListsWhenTheHubIsBack(t *testing.T) {
	for _, noStreams := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newScript(t, noStreams)
			informer := NewInformer(&toolscache.ListWatch{
				ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
					list := services.list()
					return list, s.hub.List(ctx, list, &client.ListOptions{Limit: o.Limit, Continue: o.Continue, Raw: &o})
				},
				WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
					return s.hub.Watch(ctx, services.list(), &client.ListOptions{Raw: &o})
				},
			}, &clustersetv1alpha1.ExportedService{}, 0, nil)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() { defer close(done); informer.RunWithContext(ctx) }()
			t.Cleanup(func() { cancel(); <-done; synctest.Wait() })
			has := func(what string, within time.Duration) {
				t.Helper()
				elapse(within)
				var got, want []string
				for _, o := range informer.GetStore().List() {
					got = append(got, o.(client.Object).GetName()+"@"+o.(client.Object).GetResourceVersion())
				}
				for at, o := range s.hub.objects {
					want = append(want, at.name+"@"+o.GetResourceVersion())
				}
				slices.Sort(got)
				slices.Sort(want)
				if !slices.Equal(got, want) {
					t.Fatalf("%s:\n has %v\nwant %v", what, got, want)
				}
			}
			put := func(name string) { s.hub.put(exported("a/shop/"+name, "1")) }
			cut := func() { s.hub.do(func() { close(s.hub.cut); s.hub.cut = make(chan struct{}) }) }
			fail := func(err error) { s.hub.do(func() { s.hub.fails = err }) }
			put("web")
			has("at first", 10*time.Minute)
			s.hub.asked()
			put("new")
			cut()
			has("after a watch", 3*time.Second)
			if got := s.hub.asked(); !slices.Equal(got, []string{"watch"}) {
				t.Errorf("the hub was asked for %q", got)
			}
			restore := s.hub.backup()
			put("newer")
			has("changed", time.Second)
			restore() // within a moment
			cut()
			has("restored, and no request failed", 10*time.Second)
			put("newest")
			elapse(10 * time.Minute)
			cut()
			fail(context.DeadlineExceeded)
			restore()
			elapse(3 * time.Minute)
			fail(nil)
			has("restored while it was away", 30*time.Second)
		})
	}
}

// Rule C70 of docs/spec/control-plane.md.
func TestPausesAreThoseOfTheRule(t *testing.T) {
	pauses := backoff()
	for _, least := range []time.Duration{1, 2, 4, 8, 10, 10, 10, 10} {
		if got := pauses.Step(); got < least*time.Second || got > 2*least*time.Second {
			t.Errorf("%s, want %d s and as much again at random", got, least)
		}
	}
}
