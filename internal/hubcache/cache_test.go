package hubcache

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

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

// reader is a Cache that runs until the synctest bubble ends.
type reader struct {
	*Cache
	t   *testing.T
	hub *aHub

	mu  sync.Mutex
	log []string
}

// logged compares what it has logged about reading the hub since the last call, each line by a part of it.
func (r *reader) logged(what string, want ...string) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	got := slices.DeleteFunc(r.log, func(line string) bool { return !strings.Contains(line, `"reason"=`) })
	r.log = nil
	slices.Sort(got)
	if !slices.EqualFunc(got, want, strings.Contains) {
		r.t.Errorf("%s: it logged %q, want %q", what, got, want)
	}
}

func start(t *testing.T, hub *aHub) *reader {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := clustersetv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c, err := New(&rest.Config{Host: "https://hub", QPS: -1}, &http.Client{Transport: hub}, scheme)
	if err != nil {
		t.Fatal(err)
	}
	r := &reader{Cache: c, t: t, hub: hub}
	ctx, cancel := context.WithCancel(log.IntoContext(t.Context(), funcr.New(func(_, line string) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.log = append(r.log, line)
	}, funcr.Options{})))
	done := make(chan struct{})
	go func() { defer close(done); _ = c.Start(ctx) }()
	t.Cleanup(func() { cancel(); <-done; synctest.Wait() })
	return r
}

// read starts a Cache of these peers, or of all.
func read(t *testing.T, hub *aHub, peers ...string) *reader {
	t.Helper()
	r := start(t, hub)
	r.SetNamespaces(nil)
	r.SetPeers(peers)
	return r
}

// elapse advances the fake clock, and waits for everything due by then.
func elapse(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // synctest's clock
	synctest.Wait()
}

// stored returns what the cache has of the ExportedServices.
func (r *reader) stored() (got []string) {
	for _, o := range r.records[0].store.List() {
		o := o.(client.Object)
		got = append(got, o.GetNamespace()+"/"+o.GetName()+"@"+o.GetResourceVersion()+o.GetAnnotations()["content"])
	}
	slices.Sort(got)
	return got
}

// has advances the clock, and compares the ExportedServices in the cache with those of the hub in these namespaces.
func (r *reader) has(what string, within time.Duration, namespaces ...string) {
	r.t.Helper()
	elapse(within)
	if !r.synced() {
		r.t.Fatalf("%s: it hasn't synced", what)
	}
	if got, want := r.stored(), r.hub.has(namespaces...); !slices.Equal(got, want) {
		r.t.Fatalf("%s:\n has %v\nwant %v", what, got, want)
	}
}

func (r *reader) synced() bool {
	return !slices.ContainsFunc(r.kinds(), func(k *kind) bool { return !k.HasSynced() })
}

func (r *reader) unread(what string, want ...string) {
	r.t.Helper()
	var got []string
	for _, c := range []string{"a", "b", "c", "d"} {
		if r.Unread(c) {
			got = append(got, c)
		}
	}
	if !slices.Equal(got, want) {
		r.t.Errorf("%s: unread are %v, want %v", what, got, want)
	}
}

func (r *reader) asked(what string, want ...string) {
	r.t.Helper()
	if got := r.hub.asked(services); !slices.Equal(got, want) {
		r.t.Errorf("%s: the hub was asked for %q, want %q", what, got, want)
	}
}

func (r *reader) epoch(what string, want int) {
	r.t.Helper()
	if got := r.State().Epoch; got != want {
		r.t.Errorf("%s: epoch %d, want %d", what, got, want)
	}
}

// seen records the events that a handler gets.
func (r *reader) seen() *[]string {
	r.t.Helper()
	var all []string
	informer, err := r.GetInformer(r.t.Context(), &clustersetv1alpha1.ExportedService{})
	if err != nil {
		r.t.Fatal(err)
	}
	name := func(o any) string {
		return o.(client.Object).GetNamespace()[len("clusterset-member-"):] + "/" + o.(client.Object).GetName()
	}
	if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(o any, initial bool) {
			all = append(all, map[bool]string{true: "initially ", false: "add "}[initial]+name(o))
		},
		UpdateFunc: func(was, is any) { all = append(all, "update "+name(was)+" "+is.(client.Object).GetResourceVersion()) },
		DeleteFunc: func(o any) {
			if unseen, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
				all = append(all, "miss "+name(unseen.Obj))
				return
			}
			all = append(all, "delete "+name(o)+" "+o.(client.Object).GetResourceVersion())
		},
	}); err != nil {
		r.t.Fatal(err)
	}
	return &all
}

func (r *reader) events(what string, seen *[]string, want ...string) {
	r.t.Helper()
	got := slices.Clone(*seen)
	*seen = nil
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		r.t.Errorf("%s: the handler got %q, want %q", what, got, want)
	}
}

// streamsOrLists runs a test with an API server that streams lists, and with one that doesn't and has pages of two.
func streamsOrLists(t *testing.T, test func(t *testing.T, hub *aHub)) {
	for _, noStreams := range []bool{false, true} {
		t.Run(map[bool]string{false: "streamed", true: "listed"}[noStreams], func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hub := filled()
				if hub.noStreams = noStreams; noStreams {
					hub.limit = 2
				}
				test(t, hub)
			})
		})
	}
}

// Without communities there is one watch for each kind, however many clusters there are.
func TestOneWatchForEachKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := filled()
		r := start(t, hub)
		elapse(time.Minute)
		if got := hub.asked(members); !slices.Equal(got, []string{"stream"}) {
			t.Errorf("for MemberClusters the hub was asked %q", got)
		}
		if r.Watched() {
			t.Error("nothing is known of what is to be watched")
		}
		r.SetPeers(nil)
		elapse(time.Minute)
		r.asked("before the namespaces are known")
		r.SetNamespaces(nil)
		r.has("at first", time.Second, nsA, nsB, nsC, nsD)
		r.asked("at first", "stream")
		hub.put(nsC, "more")
		hub.endWatches()
		r.has("after a watch", 3*time.Second, nsA, nsB, nsC, nsD)
		r.asked("after a watch", "watch")
		r.unread("all are read in one")
		r.SetPeers(nil)
		r.SetNamespaces(nil)
		r.has("the same again", 3*time.Second, nsA, nsB, nsC, nsD)
		r.asked("the same again")
	})
}

func TestNamespacesAreSelected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := filled()
		r := start(t, hub)
		r.SetPeers(nil)
		many := make([]string, MaxNamespaces+1)
		for i := range many {
			many[i] = fmt.Sprint("n", i)
		}
		in := "stream ?" + api.LabelExportedNamespace + " in ("
		for _, c := range []struct {
			namespaces []string
			asked      string
		}{
			{[]string{"shop", "bank"}, in + "bank,shop)"},
			{many, "stream"},
			{[]string{}, in + "-)"},
			{many[:MaxNamespaces], in + strings.Join(slices.Sorted(slices.Values(many[:MaxNamespaces])), ",") + ")"},
			{nil, "stream"},
		} {
			r.SetNamespaces(c.namespaces)
			elapse(3 * time.Second)
			r.asked(fmt.Sprint(len(c.namespaces)), c.asked)
		}
		for range 10 {
			r.SetNamespaces([]string{"shop"})
			elapse(100 * time.Millisecond)
			r.SetNamespaces([]string{"bank"})
			elapse(100 * time.Millisecond)
		}
		if got := len(hub.asked(services)); got > 4 {
			t.Errorf("%d lists in two seconds", got)
		}
	})
}

func TestPeersAreRead(t *testing.T) {
	streamsOrLists(t, func(t *testing.T, hub *aHub) {
		hub.stale = true
		r := read(t, hub, "a", "b", "c")
		r.has("at first", 2*time.Second, nsA, nsB, nsC)
		r.unread("at first")
		hub.asked(services)
		hub.put(nsA, "s0")
		hub.put(nsB, "more")
		hub.put(nsD, "more")
		hub.remove(nsC, "s1")
		r.has("then", time.Second, nsA, nsB, nsC)
		for i := range 5 { // watches often end, and resume at their last version
			hub.put(nsC, "more")
			hub.put(nsB, fmt.Sprint("m", i))
			hub.endWatches()
			hub.remove(nsC, "s0")
			hub.put(nsA, "more")
			r.has("watch after watch", 3*time.Second, nsA, nsB, nsC)
		}
		for _, asked := range hub.asked(services) {
			if !strings.HasPrefix(asked, "watch clusterset-member-") || strings.HasSuffix(asked, "-d") {
				t.Errorf("the hub was asked for %q", asked)
			}
		}
		r.epoch("nothing went back", 0)
	})
}

// The permission to read a new peer's records may come late, and may disappear for a while later. The other peers are
// still read, and the peer's known records stay.
func TestForbiddenNamespaceHoldsUpNobody(t *testing.T) {
	streamsOrLists(t, func(t *testing.T, hub *aHub) {
		hub.forbid(true, nsB, nsC)
		r := read(t, hub, "a", "b", "c")
		r.has("at first", 2*time.Second, nsA)
		r.unread("at first", "b", "c")
		hub.asked(services)
		elapse(20 * time.Minute)
		if got := len(hub.asked(services)); got < 100 || got > 200 { // two namespaces, every 30 to 45 s, a stream and a list
			t.Errorf("%d requests in twenty minutes", got)
		}
		hub.forbid(false, nsB, nsC)
		r.has("with the right", 45*time.Second, nsA, nsB, nsC)
		r.unread("with the right")
		elapse(time.Minute) // client-go lists again after a watch that ends within a second
		hub.forbid(true, nsB)
		hub.endWatches()
		elapse(0)
		hub.put(nsC, "more")
		want := slices.Concat(hub.has(nsA), hub.has(nsB), hub.has(nsC))
		hub.put(nsB, "more")
		hub.asked(services)
		elapse(time.Hour)
		if got := r.stored(); !slices.Equal(got, want) {
			t.Errorf("without the right:\n has %v\nwant %v", got, want)
		}
		r.unread("what was read stays")
		if !r.Watched() {
			t.Error("this cluster's own records are watched")
		}
		hub.forbid(false, nsB)
		r.has("with the right again", 45*time.Second, nsA, nsB, nsC)
		for _, asked := range hub.asked(services) {
			if !strings.HasPrefix(asked, "watch ") {
				t.Errorf("the hub was asked for %q, although a watch could go on", asked)
			}
		}
	})
}

// Whoever runs an agent learns from its log why it can't read the hub, once each time.
func TestRefusedWatchIsLoggedOnce(t *testing.T) {
	streamsOrLists(t, func(t *testing.T, hub *aHub) {
		r := read(t, hub, "a", "b")
		r.has("at first", 2*time.Minute, nsA, nsB)
		r.logged("all is well")
		hub.endWatches()
		elapse(time.Hour)
		r.logged("watches end and go on")
		for range 2 {
			hub.forbid(true, nsB)
			hub.endWatches()
			elapse(time.Hour)
			r.logged("without the right", `"kind"="exportedendpoints" "namespace"="`+nsB+`"`, `"kind"="exportedservices" "namespace"="`+nsB+`"`)
			hub.forbid(false, nsB)
			elapse(time.Hour)
			r.logged("with the right")
		}
		hub.forbid(true, nsB)
		hub.endWatches()
		hub.put(nsB, "more")
		hub.compact() // so that all are listed again
		elapse(time.Hour)
		r.logged("a list is refused", `"kind"="exportedendpoints" "namespace"="`+nsB+`"`, `"kind"="exportedservices" "namespace"="`+nsB+`"`)
	})
}

// The same for a hub that doesn't answer: one line for all requests. Reasons that alternate take no more than a line a minute.
func TestHubThatDoesNotAnswerIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := filled()
		hub.do(func() { hub.status = http.StatusServiceUnavailable })
		r := read(t, hub, "a", "b")
		elapse(time.Hour)
		r.logged("at the start", "The hub doesn't answer")
		hub.start()
		r.has("it answers", 10*time.Second, nsA, nsB)
		for _, status := range []int{http.StatusTooManyRequests, http.StatusInternalServerError} {
			hub.stop()
			hub.do(func() { hub.status = status })
			elapse(time.Hour)
			r.logged("later", "The hub doesn't answer")
			hub.start()
			elapse(time.Hour)
			r.logged("it answers")
		}
		hub.stop()
		for i := range 100 {
			hub.do(func() { hub.status = http.StatusInternalServerError + 3*(i%2) })
			elapse(6 * time.Second)
		}
		if n := len(r.log); n < 5 || n > 10 {
			t.Errorf("%d lines about two reasons in ten minutes", n)
		}
	})
}

func TestSilentNamespaceHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := filled()
		hub.silent[nsB] = true
		r := read(t, hub, "a", "b", "c")
		elapse(patience - time.Millisecond)
		if r.synced() {
			t.Error("it didn't wait for the peer")
		}
		r.has("then", time.Millisecond, nsA, nsC)
		r.unread("then", "b")
	})
	synctest.Test(t, func(t *testing.T) {
		hub := filled()
		hub.silent[nsA] = true
		r := read(t, hub, "a", "b", "c")
		elapse(time.Hour)
		if r.synced() || r.Watched() {
			t.Error("it counts as read without this cluster's own records")
		}
	})
	synctest.Test(t, func(t *testing.T) {
		hub := filled()
		hub.forbid(true, nsA)
		r := read(t, hub, "a", "b")
		elapse(time.Hour)
		if r.synced() || r.Watched() {
			t.Error("it counts as read without the right to this cluster's own records")
		}
	})
}

func TestPeersChange(t *testing.T) {
	streamsOrLists(t, func(t *testing.T, hub *aHub) {
		r := read(t, hub)
		r.has("all", 2*time.Second, nsA, nsB, nsC, nsD)
		seen := r.seen()
		*seen = nil
		hub.asked(services)
		hub.mu.Lock()
		r.SetPeers([]string{"a", "c"})
		r.unread("they aren't read", "a", "c")
		hub.mu.Unlock()
		r.has("two", 2*time.Second, nsA, nsC)
		r.unread("two")
		r.events("two", seen, "miss b/s0", "miss b/s1", "miss b/s2", "miss d/s0", "miss d/s1", "miss d/s2")
		hub.asked(services)
		r.SetPeers([]string{"a", "c", "b"})
		r.has("three", 2*time.Second, nsA, nsB, nsC)
		r.events("three", seen, "add b/s0", "add b/s1", "add b/s2")
		for _, asked := range hub.asked(services) {
			if !strings.Contains(asked, nsB) {
				t.Errorf("the hub was asked for %q", asked)
			}
		}
		hub.put(nsB, "more")
		hub.put(nsD, "more")
		hub.remove(nsA, "s0")
		r.SetPeers(nil)
		r.has("all again", 2*time.Second, nsA, nsB, nsC, nsD)
		hub.put(nsD, "s0")
		r.has("all again, watched", time.Second, nsA, nsB, nsC, nsD)
		hub.endWatches()
		hub.asked(services)
		elapse(time.Second)
		r.asked("there are no other watches", "watch")
	})
}

// A peer or a namespace that is removed while it is being listed isn't stored afterwards, and what is there stays until the new list is whole.
func TestSelectionChangesWhileListing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := filled()
		r := read(t, hub, "a", "b")
		r.has("at first", 2*time.Second, nsA, nsB)
		hold := make(chan struct{})
		hub.do(func() { hub.hold = hold })
		r.SetPeers([]string{"a", "b", "c"})
		r.has("one is being listed", time.Minute, nsA, nsB)
		r.SetPeers([]string{"a", "b"})
		close(hold)
		r.has("it was removed meanwhile", time.Minute, nsA, nsB)

		hold = make(chan struct{})
		hub.do(func() { hub.hold = hold })
		r.SetNamespaces([]string{"shop"})
		r.has("what is there stays", time.Minute, nsA, nsB)
		r.unread("they are being listed", "a", "b")
		hub.put(nsB, "more")
		r.SetPeers([]string{"a"})
		r.has("one of them was removed", time.Second, nsA)
		r.SetPeers([]string{"a", "b"})
		close(hold)
		r.has("and added again", 2*time.Second, nsA, nsB)
		r.unread("all are listed")
	})
	synctest.Test(t, func(t *testing.T) { // a late answer to a feed that was stopped
		hub := filled()
		r := read(t, hub, "a", "b")
		r.has("at first", 2*time.Second, nsA, nsB)
		late := r.records[0].feeds[nsB]
		r.SetPeers([]string{"a"})
		o := &clustersetv1alpha1.ExportedService{}
		o.Namespace, o.Name = nsB, "late"
		own := r.records[0].store.List()[0].(*clustersetv1alpha1.ExportedService)
		if err := errors.Join(late.Replace([]any{o}, "999"), late.Add(o), late.Delete(own)); err != nil {
			t.Fatal(err)
		}
		r.has("it was removed", time.Second, nsA)
		r.epoch("it was removed", 0)
	})
}

// A hub that no longer has a watch's resource version is listed again: only the namespace that it is about, at once at first, and then after
// ever longer pauses.
func TestOnlyWhatExpiredIsListedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := filled()
		r := read(t, hub, "a", "b", "c")
		r.has("at first", time.Minute, nsA, nsB, nsC)
		seen := r.seen()
		r.events("all are told", seen, "initially a/s0", "initially a/s1", "initially a/s2", "initially b/s0", "initially b/s1", "initially b/s2",
			"initially c/s0", "initially c/s1", "initially c/s2")
		hub.asked(services)
		hub.endWatches() // and while they are closed, one changes, and the hub compacts
		hub.remove(nsB, "s1")
		hub.put(nsB, "s2")
		hub.put(nsB, "new")
		hub.compact()
		hub.do(func() {})
		r.has("after a compaction", 0, nsA, nsB, nsC)
		r.events("after a compaction", seen, "miss b/s1", fmt.Sprint("update b/s2 ", hub.version-1), "add b/new")
		r.epoch("after a compaction", 0)
	})
	synctest.Test(t, func(t *testing.T) {
		hub := filled()
		r := read(t, hub, "a", "b", "c")
		r.has("at first", time.Minute, nsA, nsB, nsC)
		hub.asked(services)
		hub.do(func() { hub.gone[nsB] = true })
		elapse(0)
		r.asked("at once", "stream "+nsB)
		elapse(time.Hour)
		got := hub.asked(services)
		if n := len(got); n < 80 || n > 130 { // every 30 to 45 s
			t.Errorf("%d lists in an hour", n)
		}
		if slices.ContainsFunc(got, func(s string) bool { return s != "stream "+nsB }) {
			t.Errorf("the hub was asked for %q", got)
		}
		hub.do(func() { hub.gone[nsB] = false })
		r.has("it is over", time.Minute, nsA, nsB, nsC)
	})
}

// Lists in pages are stored as a whole, and a page that expires begins the list again.
func TestPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := filled()
		hub.noStreams, hub.limit = true, 1
		r := read(t, hub)
		r.has("pages of one", 2*time.Second, nsA, nsB, nsC, nsD)
		if got := hub.asked(services); slices.Index(got, "watch") < 0 || len(got) != 1+13+1 { // a stream that is refused, pages, a watch
			t.Errorf("the hub was asked for %q", got)
		}
	})
}

// A hub that can't be reached is asked by one watch for all, every 1 to 1.5 s. Once it answers, the others follow at once, and no list is
// needed.
func TestOneAsksForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := filled()
		hub.mu.Lock()
		r := read(t, hub, "a", "b", "c")
		if s := r.State(); s.Phase != Unknown {
			t.Errorf("before an answer: %+v", s)
		}
		hub.mu.Unlock()
		r.has("at first", time.Second, nsA, nsB, nsC)
		if s := r.State(); s.Phase != Live {
			t.Errorf("it answers: %+v", s)
		}
		for _, status := range []int{-1, http.StatusServiceUnavailable, http.StatusInternalServerError} {
			for len(r.Back()) > 0 {
				<-r.Back()
			}
			hub.stop()
			hub.do(func() { hub.status = status })
			began := time.Now()
			elapse(2 * time.Second) // each has failed once
			hub.mu.Lock()
			hub.requests = nil
			hub.mu.Unlock()
			elapse(7 * time.Second)
			if !r.Watched() {
				t.Errorf("%d: closed for less than %s", status, closedFor)
			}
			elapse(20 * time.Minute)
			hub.mu.Lock()
			n := len(hub.requests)
			hub.requests = nil
			hub.mu.Unlock()
			if n < 790 || n > 1210 {
				t.Errorf("%d: %d requests in twenty minutes", status, n)
			}
			if s := r.State(); s.Phase != Away || !s.Since.Equal(began) {
				t.Errorf("%d: %+v, want away since %s", status, s, began)
			}
			if r.Watched() || len(r.Back()) > 0 {
				t.Errorf("%d: the hub isn't watched, and not back", status)
			}
			hub.put(nsB, "more")
			hub.start()
			elapse(1500 * time.Millisecond)
			if s := r.State(); s.Phase != Live || s.Epoch != 0 || len(r.Back()) != 1 || !r.Watched() {
				t.Errorf("%d: it is back: %+v, %v", status, s, r.Watched())
			}
			r.has("it is back", 0, nsA, nsB, nsC)
			for _, asked := range hub.asked(services) {
				if !strings.HasPrefix(asked, "watch ") {
					t.Errorf("%d: the hub was asked for %q", status, asked)
				}
			}
		}
	})
	synctest.Test(t, func(t *testing.T) { // an API server that is overloaded answers, and is asked no more often
		hub := filled()
		r := read(t, hub)
		r.has("at first", time.Second, nsA, nsB, nsC, nsD)
		hub.do(func() { hub.status = http.StatusTooManyRequests })
		hub.endWatches()
		elapse(time.Second)
		hub.asked(services)
		elapse(time.Minute)
		if s := r.State(); s.Phase != Live {
			t.Errorf("%+v", s)
		}
		if got := hub.asked(services); len(got) > 60 || slices.ContainsFunc(got, func(s string) bool { return s != "watch" }) {
			t.Errorf("the hub was asked for %q", got)
		}
	})
}

// An API server that is overloaded answers, if only with refusals. When it takes a request again, all others follow at once. Those that it
// refuses nevertheless aren't repeated faster. Rule C70 of docs/spec/control-plane.md.
func TestAllFollowAnAPIServerThatWasOverloaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := newHub()
		var peers, namespaces []string
		for i := range 20 {
			peers = append(peers, fmt.Sprint("peer-", i))
			namespaces = append(namespaces, api.MemberNamespace(peers[i]))
			hub.put(namespaces[i], "old")
		}
		r := read(t, hub, peers...)
		r.has("at first", time.Second, namespaces...)
		hub.do(func() { hub.status = http.StatusTooManyRequests })
		hub.endWatches()
		elapse(time.Minute)
		for _, n := range namespaces {
			hub.put(n, "new")
		}
		hub.do(func() { hub.status = 0 })
		r.has("it isn't overloaded any more", 1500*time.Millisecond, namespaces...)

		hub.do(func() { hub.status, hub.every = http.StatusTooManyRequests, 4 })
		hub.endWatches()
		for range 60 {
			hub.mu.Lock()
			before := len(hub.requests)
			hub.mu.Unlock()
			elapse(time.Second)
			hub.mu.Lock()
			n := len(hub.requests) - before
			hub.mu.Unlock()
			if n > 2*len(peers)+2 { // each peer's two watches, that of the MemberClusters, and the next one alone
				t.Errorf("it takes one request of four, and was asked %d times in a second", n)
			}
		}
		hub.put(namespaces[0], "newer")
		r.has("in the end", 0, namespaces...)
	})
}

// A start waits for the hub as long as necessary.
func TestStartsWithoutTheHub(t *testing.T) {
	streamsOrLists(t, func(t *testing.T, hub *aHub) {
		hub.stop()
		r := read(t, hub, "a", "b")
		elapse(time.Hour)
		if r.synced() {
			t.Error("it has read nothing")
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if r.WaitForCacheSync(short) {
			t.Error("it didn't wait")
		}
		err := r.List(t.Context(), &clustersetv1alpha1.ExportedServiceList{})
		if !errors.Is(err, ErrNotRead) || !errors.Is(r.Get(t.Context(), client.ObjectKey{Name: "a"}, &clustersetv1alpha1.MemberCluster{}), ErrNotRead) {
			t.Errorf("reads before it has synced: %v", err)
		}
		hub.start()
		r.has("the hub is there", 4*time.Second, nsA, nsB)
		if !r.WaitForCacheSync(t.Context()) {
			t.Error("it has synced")
		}
	})
}

// A hub that is restored from a backup may have other content under known resource versions, and a watch of a later version waits forever.
func TestRestoredHub(t *testing.T) {
	streamsOrLists(t, func(t *testing.T, hub *aHub) {
		r := read(t, hub, "a", "b")
		r.has("at first", 2*time.Second, nsA, nsB)
		restore := hub.backup()
		hub.put(nsA, "new")
		hub.put(nsB, "s0") // version 114
		hub.remove(nsB, "s1")
		r.has("before", time.Second, nsA, nsB)
		hub.stop()
		restore()
		hub.do(func() { hub.content = " restored" })
		hub.put(nsA, "s0")
		hub.put(nsB, "s0") // version 114 again
		hub.start()
		elapse(time.Minute)
		if slices.Equal(r.stored(), hub.has(nsA, nsB)) {
			t.Fatal("the test shows nothing: nobody told the cache")
		}
		seen := r.seen()
		*seen = nil
		r.epoch("nobody told it", 0)
		r.Relist()
		r.epoch("told", 1)
		r.has("told", 2*time.Second, nsA, nsB)
		r.events("told", seen, "update a/s0 113", "update a/s1 102", "update a/s2 103", "miss a/new", "update b/s0 114", "add b/s1", "update b/s2 106")
		hub.put(nsB, "more")
		r.has("and watched", time.Second, nsA, nsB)
		r.epoch("once", 1)
	})
}

// A list with an earlier resource version than one before shows that the hub has gone back.
func TestListThatWentBack(t *testing.T) {
	streamsOrLists(t, func(t *testing.T, hub *aHub) {
		hub.stale = true
		r := read(t, hub, "a", "b")
		r.has("at first", 2*time.Second, nsA, nsB)
		restore := hub.backup()
		for i := range 10 {
			hub.put(nsA, fmt.Sprint("new", i))
		}
		r.has("before", time.Second, nsA, nsB)
		seen := r.seen()
		var epochs []int
		if _, err := r.records[0].AddEventHandler(toolscache.ResourceEventHandlerFuncs{DeleteFunc: func(any) { epochs = append(epochs, r.State().Epoch) }}); err != nil {
			t.Fatal(err)
		}
		*seen = nil
		hub.stop()
		restore()
		hub.do(func() { hub.oldest, hub.content = 1000, " restored" }) // no watch can go on
		hub.put(nsB, "s0")
		hub.start()
		elapse(time.Minute)
		hub.do(func() { hub.oldest = 0 })
		r.has("it noticed", time.Minute, nsA, nsB)
		if e := r.State().Epoch; e < 1 || e > 4 { // each feed may notice, until all have listed again
			t.Errorf("epoch %d", e)
		}
		if len(epochs) != 10 || slices.Contains(epochs, 0) {
			t.Errorf("the epochs of the deletions were %v", epochs)
		}
	})
	synctest.Test(t, func(t *testing.T) { // whatever isn't a number can't be compared
		hub := filled()
		r := read(t, hub)
		r.has("at first", time.Second, nsA, nsB, nsC, nsD)
		f := r.records[0].feeds[""]
		for _, version := range []string{"opaque", "1", strings.Repeat("9", 30)} {
			_ = f.Replace(nil, version)
		}
		r.epoch("versions that can't be compared", 0)
		_ = f.Replace(nil, strings.Repeat("8", 30))
		r.epoch("long ones can", 1)
		elapse(time.Minute)
	})
}

// An API server that lags behind doesn't look like one that went back.
func TestLaggingAPIServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := filled()
		hub.noStreams, hub.stale = true, true
		r := read(t, hub)
		r.has("at first", 2*time.Second, nsA, nsB, nsC, nsD)
		r.SetNamespaces([]string{"shop"}) // a new Reflector
		r.has("others", 3*time.Second, nsA, nsB, nsC, nsD)
		r.SetPeers([]string{"a", "b"})
		r.has("fewer", 3*time.Second, nsA, nsB)
		r.epoch("it only lags", 0)
	})
}

func TestPassed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := filled()
		hub.forbid(true, nsC)
		r := start(t, hub)
		if r.Passed("a", "1") {
			t.Error("nothing has been read")
		}
		r.SetNamespaces(nil)
		r.SetPeers([]string{"a", "b", "c"})
		elapse(2 * time.Second)
		passed := func(what, want string, version int) {
			t.Helper()
			got := ""
			for _, c := range []string{"a", "b", "c", "d"} {
				if r.Passed(c, fmt.Sprint(version)) {
					got += c
				}
			}
			if got != want {
				t.Errorf("%s: version %d is passed by %q, want %q", what, version, got, want)
			}
		}
		passed("listed", "ab", 112)
		passed("listed", "", 113)
		hub.put(nsB, "more") // which is no event of ExportedEndpoints
		elapse(0)
		passed("an event", "", 113)
		hub.bookmark(nsB)
		elapse(0)
		passed("a bookmark", "b", 114)
		passed("a bookmark", "ab", 112)
		passed("a bookmark", "", 115)
		r.SetPeers(nil)
		elapse(2 * time.Second)
		passed("all in one", "abcd", 114)
		hub.mu.Lock() // it doesn't answer
		r.Relist()
		passed("it is being listed", "", 1)
		hub.mu.Unlock()
		elapse(2 * time.Second)
		passed("another epoch", "abcd", 114)
	})
}

func TestReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := filled()
		hub.putKind(members, "", "beijing")
		hub.putKind(endpoints, nsA, "web")
		r := read(t, hub)
		seen := r.seen()
		elapse(time.Second)
		hub.put(nsA, "s0")
		hub.remove(nsB, "s1")
		hub.put(nsB, "late")
		elapse(time.Second)
		want := []string{"update a/s0 115", "delete b/s1 116", "add b/late"}
		want[1] = "delete b/s1 116"
		for _, c := range []string{"a", "b", "c", "d"} {
			for i := range 3 {
				want = append(want, fmt.Sprintf("initially %s/s%d", c, i))
			}
		}
		r.events("seen", seen, want...)

		ctx := t.Context()
		member, endpoint, service := &clustersetv1alpha1.MemberCluster{}, &clustersetv1alpha1.ExportedEndpoints{}, &clustersetv1alpha1.ExportedService{}
		if err := errors.Join(r.Get(ctx, client.ObjectKey{Name: "beijing"}, member), r.Get(ctx, client.ObjectKey{Namespace: nsA, Name: "web"}, endpoint)); err != nil {
			t.Fatal(err)
		}
		if member.Name != "beijing" || endpoint.Namespace != nsA || endpoint.Name != "web" {
			t.Errorf("got %v and %v", member, endpoint)
		}
		key := client.ObjectKey{Namespace: nsA, Name: "s0"}
		if err := r.Get(ctx, key, service); err != nil {
			t.Fatal(err)
		}
		service.Annotations["content"] = "changed"
		again := &clustersetv1alpha1.ExportedService{}
		if err := r.Get(ctx, key, again, client.UnsafeDisableDeepCopy); err != nil || again.Annotations["content"] == "changed" {
			t.Errorf("what was read belongs to the reader: %v", err)
		}
		again.Annotations["content"] = "shared"
		if err := r.Get(ctx, key, service); err != nil || service.Annotations["content"] != "shared" {
			t.Errorf("what is read without a copy is the cache's: %v", err)
		}
		if err := r.Get(ctx, client.ObjectKey{Namespace: nsA, Name: "s9"}, service); !apierrors.IsNotFound(err) {
			t.Errorf("what isn't there: %v", err)
		}
		var list clustersetv1alpha1.ExportedServiceList
		for what, c := range map[string]struct {
			options []client.ListOption
			want    int
		}{
			"all":         {nil, 12},
			"a namespace": {[]client.ListOption{client.InNamespace(nsB)}, 3},
			"another":     {[]client.ListOption{client.InNamespace("other")}, 0},
			"a limit":     {[]client.ListOption{client.Limit(2), client.UnsafeDisableDeepCopy}, 2},
			"labels":      {[]client.ListOption{client.MatchingLabelsSelector{Selector: labels.Nothing()}}, 0},
		} {
			if err := r.List(ctx, &list, c.options...); err != nil || len(list.Items) != c.want {
				t.Errorf("%s: %d, %v", what, len(list.Items), err)
			}
		}
		if err := r.List(ctx, &list, client.InNamespace(nsA)); err != nil {
			t.Fatal(err)
		}
		list.Items[0].Annotations["content"] = "changed"
		if err := r.List(ctx, &list, client.InNamespace(nsA)); err != nil || slices.ContainsFunc(list.Items, func(s clustersetv1alpha1.ExportedService) bool { return s.Annotations["content"] == "changed" }) {
			t.Errorf("a list belongs to the reader: %v", err)
		}
		if r.List(ctx, &list, client.MatchingFields{"x": "y"}) == nil || r.Get(ctx, key, &corev1.Service{}) == nil {
			t.Error("it doesn't know fields and other kinds")
		}
	})
}

// A handler that is removed gets nothing more; one that is added later gets what is there.
func TestHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := filled()
		r := read(t, hub, "a")
		elapse(time.Second)
		informer, err := r.GetInformerForKind(t.Context(), clustersetv1alpha1.GroupVersion.WithKind("ExportedService"))
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		registered, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: func(any) { n++ }})
		if err != nil || n != 3 || !registered.HasSynced() || !informer.HasSynced() {
			t.Fatalf("%d objects, %v", n, err)
		}
		other := r.seen()
		if err := informer.RemoveEventHandler(registered); err != nil {
			t.Fatal(err)
		}
		*other = nil
		hub.put(nsA, "new")
		elapse(time.Second)
		r.events("the other", other, "add a/new")
		if n != 3 {
			t.Errorf("%d objects after it was removed", n)
		}
	})
}

func TestRandomly(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a test
			hub := filled()
			if hub.noStreams = seed%2 == 0; hub.noStreams {
				hub.limit = 1 + random.IntN(3)
			}
			hub.stale = seed%3 == 0
			r := read(t, hub, "a", "b", "c")
			peers, all := []string{nsA, nsB, nsC}, []string{nsA, nsB, nsC, nsD}
			for step := range 300 {
				namespace, name := all[random.IntN(4)], fmt.Sprint("s", random.IntN(6))
				switch random.IntN(14) {
				case 0, 1, 2, 3, 4:
					hub.put(namespace, name)
				case 5, 6:
					hub.remove(namespace, name)
				case 7:
					hub.endWatches()
				case 8:
					hub.compact()
				case 9:
					hub.forbid(random.IntN(2) == 0, nsB, nsC)
				case 10:
					hub.stop()
				case 11:
					hub.start()
				case 12:
					peers = slices.Concat(all[:1], all[1+random.IntN(3):])
					names := make([]string, 0, len(peers))
					for _, p := range peers {
						names = append(names, strings.TrimPrefix(p, "clusterset-member-"))
					}
					r.SetPeers(names)
				case 13:
					r.SetNamespaces([]string{fmt.Sprint(random.IntN(3))})
				}
				elapse(time.Duration(random.IntN(2000)) * time.Millisecond)
				if step%100 == 99 {
					hub.start()
					hub.forbid(false, nsB, nsC)
					r.has(fmt.Sprintf("seed %d, step %d", seed, step), time.Minute, peers...)
					r.unread("all may be read")
				}
			}
			r.epoch("nothing went back", 0)
		})
	}
}
