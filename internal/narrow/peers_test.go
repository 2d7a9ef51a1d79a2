//nolint:bodyclose // the replies are the tests' own
package narrow

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/hubwatch"
)

// reader is an agent's cache of a hub: client-go's cache, with the agent's transports.
type reader struct {
	hub       *aHub
	selection *Selection
	store     cache.Store
	synced    func() bool
}

// read starts a cache that runs until the synctest bubble ends.
func read(t *testing.T, hub *aHub, peers ...string) *reader {
	t.Helper()
	r := &reader{hub: hub, selection: NewSelection()}
	r.selection.Set(nil)
	r.selection.See(peers)
	watches := hubwatch.New()
	chain := watches.Wrap(r.selection.Wrap(hub))
	of, err := dynamic.NewForConfigAndClient(&rest.Config{Host: "https://hub", QPS: -1}, &http.Client{Transport: chain})
	if err != nil {
		t.Fatal(err)
	}
	records := of.Resource(clustersetv1alpha1.GroupVersion.WithResource("exportedservices"))
	informer := hubwatch.NewInformer(cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return records.List(ctx, o) },
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return records.Watch(ctx, o)
		},
	}, of), &unstructured.Unstructured{}, 0, cache.Indexers{})
	r.store, r.synced = informer.GetStore(), informer.HasSynced
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); informer.RunWithContext(ctx) }()
	t.Cleanup(func() { cancel(); <-done; synctest.Wait() })
	return r
}

// has advances the clock, and compares the cache's contents with the hub's in these namespaces.
func (r *reader) has(t *testing.T, what string, within time.Duration, namespaces ...string) {
	t.Helper()
	elapse(within)
	if !r.synced() {
		t.Fatalf("%s: it hasn't synced", what)
	}
	var got []string
	for _, o := range r.store.List() {
		o := o.(*unstructured.Unstructured)
		got = append(got, o.GetNamespace()+"/"+o.GetName()+"@"+o.GetResourceVersion())
	}
	slices.Sort(got)
	if want := r.hub.has(namespaces...); !slices.Equal(got, want) {
		t.Fatalf("%s:\n has %v\nwant %v", what, got, want)
	}
}

func (r *reader) unread(t *testing.T, what string, want ...string) {
	t.Helper()
	var got []string
	for _, c := range []string{"a", "b", "c", "d"} {
		if r.selection.Unread(c) {
			got = append(got, c)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s: unread are %v, want %v", what, got, want)
	}
}

const nsA, nsB, nsC, nsD = "clusterset-member-a", "clusterset-member-b", "clusterset-member-c", "clusterset-member-d"

func filled() *aHub {
	hub := newHub()
	for _, namespace := range []string{nsA, nsB, nsC, nsD} {
		for i := range 3 {
			hub.put(namespace, fmt.Sprint("s", i))
		}
	}
	return hub
}

// elapse advances the fake clock, and waits for everything due by then.
func elapse(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // synctest's clock
	synctest.Wait()
}

// Without communities, the hub gets the same requests as before communities were introduced: one for each kind.
func TestNoCommunitiesNoOtherRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := filled()
		r := read(t, hub)
		r.has(t, "at first", time.Second, nsA, nsB, nsC, nsD)
		if got := hub.asked(); !slices.Equal(got, []string{"watch "}) {
			t.Errorf("the hub was asked for %q", got)
		}
		hub.put(nsC, "more")
		hub.endWatches()
		r.has(t, "after a watch", 3*time.Second, nsA, nsB, nsC, nsD)
		if got := hub.asked(); !slices.Equal(got, []string{"watch "}) {
			t.Errorf("the hub was asked for %q", got)
		}
		r.unread(t, "all are read in one")
	})
}

func TestPeersAreReadAsOne(t *testing.T) {
	for _, noStreams := range []bool{false, true} {
		t.Run(map[bool]string{false: "streamed", true: "listed"}[noStreams], func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hub := filled()
				hub.noStreams = noStreams
				r := read(t, hub, "a", "b", "c")
				r.has(t, "at first", time.Minute, nsA, nsB, nsC) // a refused watch is retried for half a minute
				r.unread(t, "at first")
				hub.asked()
				hub.put(nsA, "s0")
				hub.put(nsB, "more")
				hub.put(nsD, "more")
				hub.remove(nsC, "s1")
				r.has(t, "then", time.Second, nsA, nsB, nsC)
				for i := range 5 { // watches often end, and resume at their last version
					hub.put(nsC, "more")
					hub.put(nsB, fmt.Sprint("m", i))
					hub.endWatches()
					hub.remove(nsC, "s0")
					hub.put(nsA, "more")
					r.has(t, "watch after watch", 3*time.Second, nsA, nsB, nsC)
				}
				for _, asked := range hub.asked() {
					if !strings.HasPrefix(asked, "watch clusterset-member-") || strings.HasSuffix(asked, "-d") {
						t.Errorf("the hub was asked for %q", asked)
					}
				}
			})
		})
	}
}

// The permission to read a new peer's records may come late, and may disappear for a while later. The other peers are
// still read, and the peer's known records stay.
func TestForbiddenNamespaceHoldsUpNobody(t *testing.T) {
	for _, noStreams := range []bool{false, true} {
		t.Run(map[bool]string{false: "streamed", true: "listed"}[noStreams], func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hub := filled()
				hub.noStreams = noStreams
				hub.forbid(true, nsB)
				r := read(t, hub, "a", "b", "c")
				r.has(t, "without b", time.Minute, nsA, nsC)
				r.unread(t, "without b", "b")
				hub.put(nsC, "more")
				r.has(t, "while b is forbidden", time.Second, nsA, nsC)
				hub.forbid(false, nsB)
				r.has(t, "b may be read", 2*retryMost, nsA, nsB, nsC)
				r.unread(t, "b may be read")

				hub.forbid(true, nsB, nsC)
				hub.endWatches()
				r.has(t, "what is known stays", time.Minute, nsA, nsB, nsC)
				hub.forbid(false, nsB, nsC)
				hub.put(nsB, "more")
				hub.remove(nsC, "more")
				r.has(t, "and goes on", 2*retryMost, nsA, nsB, nsC)
			})
		})
	}
}

func TestSilentNamespaceHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := filled()
		hub.silent[nsC] = true
		r := read(t, hub, "a", "b", "c")
		r.has(t, "without c", 2*patience+time.Second, nsA, nsB)
		r.unread(t, "without c", "c")
		hub.put(nsB, "more")
		r.has(t, "the others go on", time.Second, nsA, nsB)
	})
}

// When the set of peers changes, the watches end, and everything is listed again with the new selection, without a pause.
func TestPeersChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := filled()
		r := read(t, hub)
		r.has(t, "everybody", time.Second, nsA, nsB, nsC, nsD)
		hub.forbid(true, "") // the first community removes the permission to read all namespaces
		r.selection.See([]string{"a", "b", "c"})
		r.has(t, "communities", 2*time.Second, nsA, nsB, nsC)
		r.selection.See([]string{"a", "c", "d"})
		hub.forbid(true, nsB)
		r.has(t, "others", 2*time.Second, nsA, nsC, nsD)
		hub.asked()
		r.selection.See([]string{"a", "c", "d"})
		r.has(t, "the same", 2*time.Second, nsA, nsC, nsD)
		if got := hub.asked(); len(got) > 0 {
			t.Errorf("the hub was asked for %q, though nothing changed", got)
		}
		hub.forbid(false, "")
		r.selection.See(nil)
		r.has(t, "everybody again", 2*time.Second, nsA, nsB, nsC, nsD)
		if got := hub.asked(); !slices.Equal(got, []string{"watch "}) {
			t.Errorf("the hub was asked for %q", got)
		}
	})
}

// A reader that closes a stream may not have processed everything that it has read, so it must list again.
func TestClosedEarlyListsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub, selection := filled(), NewSelection()
		selection.Set(nil)
		selection.See([]string{"a", "b"})
		rt := selection.Wrap(hub)
		follow := func(query string) *http.Response {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://hub/proxied"+group+"exportedservices?watch=true&"+query, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			reply, err := rt.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			return reply
		}
		open := follow("sendInitialEvents=true")
		decoder, seen := json.NewDecoder(open.Body), 0
		for range 7 { // three events for each of two namespaces, and the end of the list
			var e event
			if err := decoder.Decode(&e); err != nil {
				t.Fatal(err)
			}
			seen++
			if (e.Type == "BOOKMARK") != (seen == 7) {
				t.Errorf("event %d is %s", seen, e.Type)
			}
		}
		_ = open.Body.Close()
		if r := follow("resourceVersion=107"); r.StatusCode != http.StatusGone {
			t.Errorf("going on after having closed: status %d", r.StatusCode)
		}
		open = follow("sendInitialEvents=true")
		go hub.endWatches()
		if _, err := io.ReadAll(open.Body); err != nil {
			t.Fatal(err)
		}
		_ = open.Body.Close()
		open = follow("resourceVersion=107")
		if open.StatusCode != http.StatusOK {
			t.Errorf("going on at the end: status %d", open.StatusCode)
		}
		_ = open.Body.Close()
	})
}

// After any changes to the hub, its permissions and its watches, the cache has the same records of the peers as the hub
// once all is quiet.
func TestPeersRandomly(t *testing.T) {
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			all := []string{nsA, nsB, nsC, nsD}
			hub := filled()
			hub.noStreams = seed%8 == 0
			names, namespaces := []string{"a", "b", "c", "d"}, all
			r := read(t, hub, names...)
			for range 30 {
				namespace, name := all[random.IntN(4)], fmt.Sprint("s", random.IntN(4))
				switch random.IntN(8) {
				case 0, 1, 2:
					hub.put(namespace, name)
				case 3:
					hub.remove(namespace, name)
				case 4:
					hub.endWatches()
				case 5:
					if namespace != nsA {
						hub.forbid(random.IntN(2) == 0, namespace)
						hub.endWatches()
					}
				case 6:
					hub.compact()
					hub.endWatches()
				case 7:
					names, namespaces = []string{"a"}, []string{nsA}
					for i, c := range []string{"b", "c", "d"} {
						if random.IntN(2) == 0 {
							names, namespaces = append(names, c), append(namespaces, all[i+1])
						}
					}
					r.selection.See(names)
				}
				elapse(time.Duration(random.IntN(int(3 * time.Second))))
			}
			hub.forbid(false, all...)
			r.has(t, fmt.Sprint("seed ", seed), 5*time.Minute, namespaces...)
			r.unread(t, fmt.Sprint("seed ", seed))
		})
	}
}
