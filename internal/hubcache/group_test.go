package hubcache

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

// C18: new peers are shown together, also if the right to read one comes later than that to read the other. There is no time in which a
// service could be merged from the records of one only.
func TestNewPeersAreShownTogether(t *testing.T) {
	streamsOrLists(t, func(t *testing.T, hub *aHub) {
		r := read(t, hub, "a")
		r.has("at first", 2*time.Second, nsA)
		seen := r.seen()
		hub.forbid(true, nsB)
		r.SetPeers([]string{"a", "b", "c"})
		r.has("one may be read", 2*time.Second, nsA)
		r.unread("one may be read", "b", "c")
		hub.put(nsA, "more")
		r.has("the others don't wait", time.Second, nsA)
		first := len(hub.has(nsA, nsB, nsC))
		hub.put(nsC, "more") // after it was listed: an event of its watch
		*seen = nil
		informer, err := r.GetInformer(t.Context(), &clustersetv1alpha1.ExportedService{})
		if err != nil {
			t.Fatal(err)
		}
		told := false
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: func(o any) {
			namespace := o.(client.Object).GetNamespace()
			if got := r.stored(); namespace != nsA && len(got) < first {
				t.Errorf("the handler is told of a record of %s when there are only %v", namespace, got)
			}
			told = told || namespace == nsB
		}}); err != nil {
			t.Fatal(err)
		}
		hub.forbid(false, nsB)
		r.has("both may be read", 5*time.Second, nsA, nsB, nsC) // refused twice, it asks again within 3 s
		if !told {
			t.Error("the handler isn't told of the peer that may be read now")
		}
		r.unread("both may be read")
		r.events("both may be read", seen, "add b/s0", "add b/s1", "add b/s2", "add c/more", "add c/s0", "add c/s1", "add c/s2")
	})
}

// C18: a namespace of services that is new is read of all peers before any is shown, and what is known already stays.
func TestNewNamespacesAreShownTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := filled()
		r := read(t, hub, "a", "b", "c")
		r.has("at first", 2*time.Second, nsA, nsB, nsC)
		before := r.stored()
		hub.do(func() { hub.silent[nsC] = true })
		r.SetNamespaces([]string{"shop"})
		hub.put(nsB, "more")
		elapse(patience - time.Millisecond)
		if got := r.stored(); len(got) != len(before) {
			t.Errorf("it has %v before one peer answers", got)
		}
		elapse(time.Millisecond)
		if got := r.stored(); len(got) != len(before)+1 {
			t.Errorf("it waits for a silent peer: %v", got)
		}
		r.unread("one is silent", "c")
		hub.put(nsB, "again")
		elapse(time.Second)
		if got := r.stored(); len(got) != len(before)+2 {
			t.Errorf("those that were read aren't watched: %v", got)
		}
	})
}

// Selections that follow each other don't make a peer wait longer, one that isn't wanted any more isn't waited for, and neither is one that
// couldn't be read before.
func TestNobodyWaitsForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := filled()
		hub.forbid(true, nsB)
		r := read(t, hub, "a")
		r.has("at first", 2*time.Second, nsA)
		r.SetPeers([]string{"a", "b", "c"})
		r.has("one may be read", 2*time.Second, nsA)
		r.SetPeers([]string{"a", "c"})
		r.has("the other isn't wanted any more", 0, nsA, nsC)

		r.SetPeers([]string{"a", "b", "c", "d"})
		elapse(patience / 2)
		r.SetNamespaces([]string{"shop"})
		r.has("half of the time", patience/2-time.Millisecond, nsA, nsC)
		r.has("all of it", time.Millisecond, nsA, nsC, nsD)
		hub.put(nsC, "more")
		r.SetNamespaces([]string{"bank"})
		r.has("one couldn't be read before", 2*time.Second, nsA, nsC, nsD)
		r.unread("one couldn't be read before", "b")
		hub.forbid(false, nsB)
		r.has("it may be read", time.Minute, nsA, nsB, nsC, nsD)
	})
}

// A hub that was restored is read again as it answers: what is known has been shown together before. What hasn't still waits.
func TestRestoredHubIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := filled()
		r := read(t, hub, "a", "b", "c")
		r.has("at first", 2*time.Second, nsA, nsB, nsC)
		hub.do(func() { hub.silent[nsC] = true })
		elapse(time.Minute)
		hub.put(nsB, "more")
		want := slices.Concat(hub.has(nsA), hub.has(nsB), hub.has(nsC))
		r.Relist()
		elapse(2 * time.Second)
		if got := r.stored(); !slices.Equal(got, want) {
			t.Errorf("one is silent:\n has %v\nwant %v", got, want)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		hub := filled()
		r := read(t, hub, "a")
		r.has("at first", 2*time.Second, nsA)
		hub.forbid(true, nsB)
		r.SetPeers([]string{"a", "b", "c"})
		elapse(time.Second)
		r.Relist()
		r.has("new peers", 2*time.Second, nsA)
		hub.forbid(false, nsB)
		r.has("both may be read", 5*time.Second, nsA, nsB, nsC) // refused twice, it asks again within 3 s
	})
}

// A cache that ends doesn't wait for a group.
func TestEndsWhileAGroupWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var began time.Time
		t.Cleanup(func() { // after that of start, which ends the cache
			if waited := time.Since(began); waited > 0 {
				t.Errorf("it ended after %s", waited)
			}
		})
		hub := filled()
		hub.do(func() { hub.silent[nsB] = true })
		r := read(t, hub, "a")
		r.has("at first", 2*time.Second, nsA)
		r.SetPeers([]string{"a", "b", "c"})
		r.has("one is silent", time.Second, nsA)
		began = time.Now()
	})
}
