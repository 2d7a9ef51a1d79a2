package hubcache

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

// quotas records what a Cache says of them.
type quotas struct {
	mu  sync.Mutex
	all []string
}

func (q *quotas) changed(cluster string, over bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.all = append(q.all, fmt.Sprint(cluster, " ", over))
}

func (q *quotas) said(t *testing.T, what string, want ...string) {
	t.Helper()
	q.mu.Lock()
	defer q.mu.Unlock()
	if !slices.Equal(q.all, want) {
		t.Errorf("%s: it said %q, want %q", what, q.all, want)
	}
	q.all = nil
}

func (r *reader) of(namespace string) (n int) {
	for _, o := range r.stored() {
		if strings.HasPrefix(o, namespace+"/") {
			n++
		}
	}
	return n
}

// Rule C58 of docs/spec/control-plane.md.
func TestQuota(t *testing.T) {
	streamsOrLists(t, func(t *testing.T, hub *aHub) {
		for i := range 97 {
			hub.put(nsA, fmt.Sprintf("t%02d", i))
			hub.put(nsB, fmt.Sprintf("t%02d", i))
		}
		var q quotas
		r := start(t, hub)
		r.SetQuota(20*600, "a", q.changed) // of 520 to 600 bytes each
		r.SetNamespaces(nil)
		r.SetPeers(nil)
		elapse(10 * time.Second)
		if a, b, c := r.of(nsA), r.of(nsB), r.of(nsC); a != 100 || b < 20 || b > 23 || c != 3 {
			t.Fatalf("%d, %d and %d records of three clusters", a, b, c)
		}
		q.said(t, "a list", "b true")
		before := r.of(nsB)
		for i := range 50 {
			hub.put(nsB, fmt.Sprint("new", i))
			hub.put(nsC, fmt.Sprint("new", i%10))
			hub.put(nsB, "s0") // what is there is updated
		}
		elapse(time.Second)
		if b, c := r.of(nsB), r.of(nsC); b != before || c != 13 {
			t.Errorf("%d records of one, %d of another", b, c)
		}
		if !slices.Contains(r.stored(), hub.has(nsB)[slices.IndexFunc(hub.has(nsB), func(s string) bool { return strings.HasPrefix(s, nsB+"/s0@") })]) {
			t.Error("a record that was there isn't updated")
		}
		q.said(t, "a watch") // it has been said

		was := hub.has(nsD)
		hub.do(func() { hub.content = strings.Repeat("x", 1900) })
		for i := range 4 {
			hub.put(nsD, fmt.Sprint("large", i))
		}
		hub.put(nsD, "s1")
		elapse(time.Second)
		if d := r.of(nsD); d != 7 {
			t.Errorf("%d records of another", d)
		}
		if i, _ := slices.BinarySearch(r.stored(), was[1]); r.stored()[i] != was[1] {
			t.Errorf("a record grew beyond the quota: %.300q", r.stored()[i])
		}
		q.said(t, "another", "d true")

		hub.do(func() { hub.content = "" })
		for _, o := range hub.has(nsB) {
			hub.remove(nsB, strings.TrimPrefix(strings.Split(o, "@")[0], nsB+"/"))
		}
		elapse(time.Second)
		if b := r.of(nsB); b != 0 || len(r.records[0].quota.used) != 3 {
			t.Errorf("%d records of a cluster that has none, %v", b, r.records[0].quota.used)
		}
		q.said(t, "it is read again every ten minutes at most")
		for i := range 5 {
			hub.put(nsB, fmt.Sprint("s", i))
		}
		elapse(time.Second)
		hub.asked(services)
		seen := r.seen()
		elapse(readAgain)
		q.said(t, "there is room, also if nothing is removed any more", "b false")
		if asked := hub.asked(services); !slices.Contains(asked, "stream") {
			t.Errorf("the hub was asked for %q", asked)
		}
		if b := r.of(nsB); b != 5 {
			t.Errorf("%d records, want all five", b)
		}
		for _, event := range *seen {
			if strings.HasPrefix(event, "update") {
				t.Errorf("what was there is told as a change: %s", event)
			}
		}
		r.epoch("it didn't go back", 0)
	})
}

// A record that doesn't fit, although there is much room, may be all that is left out. While it is there, reading it again would bring nothing.
func TestARecordThatDidNotFitAndIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := filled()
		var q quotas
		r := start(t, hub)
		r.SetQuota(6*600, "a", q.changed)
		r.SetNamespaces(nil)
		r.SetPeers([]string{"a", "b"})
		elapse(time.Second)
		hub.do(func() { hub.content = strings.Repeat("x", 2000) })
		hub.put(nsB, "large")
		elapse(time.Second)
		q.said(t, "one is too large", "b true")
		hub.asked(services)
		elapse(time.Hour)
		q.said(t, "it is still there")
		r.asked("it is still there")
		hub.remove(nsB, "large")
		elapse(time.Second)
		q.said(t, "it is gone", "b false")
	})
}

// What a list that never ends has counts no longer once it is given up.
func TestQuotaOfAListThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := filled()
		hub.hold = make(chan struct{})
		var q quotas
		r := start(t, hub)
		r.SetQuota(4*1200, "a", q.changed)
		r.SetNamespaces(nil)
		for range 10 {
			r.SetPeers([]string{"a", "b", "c"})
			elapse(2 * time.Second)
			r.SetPeers([]string{"a"})
			elapse(2 * time.Second)
			r.SetPeers([]string{"a", "b", "c"})
			elapse(2 * time.Second)
			r.Relist()
		}
		close(hub.hold)
		elapse(20 * time.Second)
		if b := r.of(nsB); b != 3 {
			t.Errorf("%d records", b)
		}
		q.said(t, "at the end")
	})
}

// A list that takes the place of one that broke counts alone: client-go begins it before it reports the failure.
func TestQuotaOfAListAfterAStreamThatBroke(t *testing.T) {
	streamsOrLists(t, func(t *testing.T, hub *aHub) {
		hub.breaks = true
		var q quotas
		r := start(t, hub)
		r.SetQuota(4*600, "a", q.changed) // there are three
		r.SetNamespaces(nil)
		r.SetPeers([]string{"a", "b"})
		r.has("after one that broke", 5*time.Second, nsA, nsB)
		q.said(t, "there is room for all")
	})
}

// storing calls a function at each update of a store.
type storing struct {
	toolscache.Indexer
	update func()
}

func (s storing) Update(o any) error { s.update(); return s.Indexer.Update(o) }

// While a list is stored, what it takes stays counted: the list of the other kind must not get the same room.
func TestAListThatIsStoredKeepsItsRoom(t *testing.T) {
	k := newKind(nil, nil, schema.GroupVersionResource{}, &clustersetv1alpha1.ExportedService{})
	k.quota = &quota{limit: 1 << 20, used: map[string]int{}, over: map[string]*over{}}
	f := &feed{kind: k}
	var all []any
	for i := range 10 {
		o := &clustersetv1alpha1.ExportedService{}
		o.Namespace, o.Name = nsB, fmt.Sprint("s", i)
		if !f.admits(o, true) {
			t.Fatal("there is no room")
		}
		all = append(all, o)
	}
	reserved, updates := k.quota.used[nsB], 0
	k.store = storing{k.store, func() {
		updates++
		if k.quota.used[nsB] < reserved {
			t.Errorf("%d of %d bytes are counted before record %d is stored", k.quota.used[nsB], reserved, updates)
		}
	}}
	if err := f.Replace(all, "1"); err != nil {
		t.Fatal(err)
	}
	if updates != len(all) || k.quota.used[nsB] != reserved {
		t.Errorf("%d records are stored, and %d of %d bytes counted", updates, k.quota.used[nsB], reserved)
	}
}
