package index

import (
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"time"
)

func importOf(key ServiceKey, ip string) *ServiceImport {
	return &ServiceImport{Service: key, IPs: Addrs{netip.MustParseAddr(ip)}}
}

// All restored objects are served until everything has been read. Then all of them are replaced at once.
func TestRestoredObjectsServeUntilAllIsRead(t *testing.T) {
	now := time.Unix(1000, 0)
	x := New(Options{Now: func() time.Time { return now }})
	addr := func(key string) string {
		svc := x.Snapshot().Service(key)
		if svc == nil {
			return "none"
		}
		return svc.Set(MCS).Addrs[0].String()
	}
	expect := func(step string, stale bool, serial uint32, want map[string]string) {
		t.Helper()
		for key, ip := range want {
			if got := addr(key); got != ip {
				t.Errorf("%s: %s is %s, want %s", step, key, got, ip)
			}
		}
		if s := x.Snapshot(); s.Stale() != stale || s.Serial() != serial {
			t.Errorf("%s: stale %v and serial %d, want %v and %d", step, s.Stale(), s.Serial(), stale, serial)
		}
	}
	before := map[string]string{"a.n": "10.0.0.1", "b.n": "10.0.0.2", "c.n": "none"}
	x.Restore([]Object{importOf("a.n", "10.0.0.1"), importOf("b.n", "10.0.0.2")}, time.Unix(1, 0))
	expect("restored", true, 1000, before)
	// These are half of the live objects. None of them may be visible before the rest.
	x.Replace(KindServiceImport, []Object{importOf("a.n", "10.0.0.9"), importOf("c.n", "10.0.0.3")})
	expect("while it is read", true, 1000, before)
	if x.Count(KindServiceImport) != 2 {
		t.Errorf("%d objects are counted", x.Count(KindServiceImport))
	}
	x.Publish()
	expect("read", false, 1001, map[string]string{"a.n": "10.0.0.9", "b.n": "none", "c.n": "10.0.0.3"})
	if !x.Snapshot().HasNamespace("n") {
		t.Error("the namespace is gone")
	}
	x.Delete(KindServiceImport, ObjectID{"n", "a"})
	x.Delete(KindServiceImport, ObjectID{"n", "c"})
	if x.Snapshot().HasNamespace("n") {
		t.Error("the namespace has outlived its services")
	}
	// A restore after everything has been read comes too late.
	x.Restore([]Object{importOf("a.n", "10.0.0.1")}, time.Unix(1, 0))
	x.Withdraw()
	expect("restored after all was read", false, 1003, map[string]string{"a.n": "none"})
	x.Put(importOf("a.n", "10.0.0.1"))
	expect("the next change", false, 1004, map[string]string{"a.n": "10.0.0.1"})
}

func TestWithdrawnObjectsAreGone(t *testing.T) {
	x := New(Options{})
	x.Restore([]Object{importOf("a.n", "10.0.0.1")}, time.Unix(1, 0))
	x.Withdraw()
	if x.Snapshot() != nil {
		t.Error("still there")
	}
	x.Publish()
	if x.Snapshot() == nil || x.Snapshot().Service("a.n") != nil {
		t.Error("not published, or still there")
	}
}

func TestRestoreHeedsTheNamespaces(t *testing.T) {
	x := New(Options{Namespaces: []string{"n"}})
	x.Restore([]Object{importOf("a.n", "10.0.0.1"), importOf("a.m", "10.0.0.1")}, time.Unix(1, 0))
	if x.Snapshot().Service("a.n") == nil || x.Snapshot().Service("a.m") != nil {
		t.Error("want a.n and not a.m")
	}
}

// Objects returns all objects that the Index holds, whether or not it is published. Verdicts aren't among them: after a restart nobody could
// tell how old they are (rule A55 of docs/spec/answers.md, D51 of docs/spec/data-path.md).
func TestObjectsAreAllThatIsHeld(t *testing.T) {
	objects := []Object{
		&Cluster{Name: "c1"}, &Cluster{Name: "c2"},
		importOf("a.n", "10.0.0.1"),
		&GlobalService{Service: "a.n"},
		&GlobalService{Service: "g.m"},
		&ServiceImport{Service: "h.n", Headless: true},
		&EndpointSlice{Namespace: "n", Name: "h-1", Service: "h.n", Group: Group{Cluster: "c1", Endpoints: endpoints("10.0.0.2")}},
		&EndpointSlice{Namespace: "n", Name: "h-2", Service: "h.n", Group: Group{Cluster: "c2", Endpoints: endpoints("10.0.0.3")}},
		&EndpointSlice{Namespace: "n", Name: "x-1", Service: "x.n", Group: Group{Cluster: "c2"}}, // its import is still missing
	}
	x := New(Options{})
	x.Put(&Reachability{Unreachable: []string{"c1"}})
	for _, o := range slices.Backward(objects) {
		x.Put(o)
	}
	for _, published := range []bool{false, true} {
		if got := x.Objects(); !reflect.DeepEqual(got, objects) {
			t.Errorf("published %v: got %v", published, got)
		}
		x.Publish()
	}
	x.Delete(KindEndpointSlice, ObjectID{"n", "h-1"})
	x.Delete(KindMemberCluster, ObjectID{Name: "c2"})
	if got := len(x.Objects()); got != len(objects)-2 {
		t.Errorf("%d objects", got)
	}
}
