package index

import (
	"net/netip"
	"reflect"
	"slices"
	"testing"
)

func importOf(key ServiceKey, ip string) *ServiceImport {
	return &ServiceImport{Service: key, IPs: Addrs{netip.MustParseAddr(ip)}}
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
