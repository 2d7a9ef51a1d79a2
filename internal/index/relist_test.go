package index

import (
	"fmt"
	"net/netip"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/clusterset/clusterset/internal/topology"
)

// listed returns headless services and the slices of three clusters for each, as an API server would list them. Every call creates new
// objects.
func listed(services int) (imports, slices []Object) {
	imports, slices = make([]Object, 0, services), make([]Object, 0, 3*services)
	for i := range services {
		ns, name := fmt.Sprintf("team-%d", i%500), fmt.Sprintf("service-%d", i)
		key := NewServiceKey(ns, name)
		imports = append(imports, &ServiceImport{Service: key, Headless: true, Ports: []Port{{"http", 80, TCP}, {"grpc", 9090, TCP}}})
		for j := range 3 {
			g := Group{Cluster: fmt.Sprintf("cluster-%d", (i+j)%50), Ports: []Port{{"http", 8080, TCP}, {"grpc", 9090, TCP}}}
			for k := range 3 {
				addr := netip.AddrFrom4([4]byte{10, byte(i >> 12), byte(i >> 4), byte(i<<4 | j<<2 | k)})
				g.Endpoints = append(g.Endpoints, Endpoint{Addr: addr, Hostname: fmt.Sprintf("pod-%d", k), Zone: "zone-1", Ready: true})
			}
			slices = append(slices, &EndpointSlice{Namespace: ns, Name: fmt.Sprintf("%s-%d", name, j), Service: key, Group: g})
		}
	}
	return imports, slices
}

func listedClusters(zone string) []Object {
	clusters := make([]Object, 50)
	for i := range clusters {
		clusters[i] = &Cluster{Name: fmt.Sprintf("cluster-%d", i), Member: topology.Member{Zones: []string{zone}, Region: "r1"}}
	}
	return clusters
}

// relisted returns an Index that has read its lists once. It calls now for each Snapshot with a visible change.
func relisted(services int, now func() time.Time) *Index {
	imports, endpointSlices := listed(services)
	x := New(Options{LongestZone: len("clusterset.local."), Now: now})
	x.Replace(KindMemberCluster, listedClusters("zone-1"))
	x.Replace(KindServiceImport, imports)
	x.Replace(KindEndpointSlice, endpointSlices)
	x.Publish()
	return x
}

// A watch that starts again lists all objects again. Unchanged objects are compared and dropped: no service is rebuilt, no memory is
// kept, and no reader or secondary notices.
func TestARelistWithoutNewsChangesNothing(t *testing.T) {
	const services = 2000
	x := relisted(services, nil)
	before := x.Snapshot()
	imports, endpointSlices := listed(services)
	clusters := listedClusters("zone-1")
	for _, row := range []struct {
		kind    Kind
		objects []Object
	}{{KindServiceImport, imports}, {KindEndpointSlice, endpointSlices}, {KindMemberCluster, clusters}} {
		var was, is runtime.MemStats
		runtime.ReadMemStats(&was)
		x.Replace(row.kind, row.objects)
		runtime.ReadMemStats(&is)
		// The limit allows for the map of objects to keep. Rebuilding a service would take some 5 kB.
		if each := (is.TotalAlloc - was.TotalAlloc) / uint64(len(row.objects)); each > 80 {
			t.Errorf("%s: %d bytes for each object", row.kind, each)
		}
	}
	if x.Snapshot() != before {
		t.Error("there is a new Snapshot")
	}
}

// A long change is made in portions, so that other changes get in between.
func TestALongChangeIsMadeInPortions(t *testing.T) {
	const services = 4 * portionServices
	snapshots := 0
	x := relisted(services, func() time.Time { snapshots++; return time.Unix(1, 0) })
	change := func(what string, atLeast, atMost int, f func()) {
		t.Helper()
		snapshots = 0
		f()
		if snapshots < atLeast || snapshots > atMost {
			t.Errorf("%s: %d Snapshots, want %d to %d", what, snapshots, atLeast, atMost)
		}
	}
	imports, endpointSlices := listed(services)
	for i, o := range endpointSlices {
		o.(*EndpointSlice).Endpoints[0].Addr = netip.AddrFrom4([4]byte{11, 0, byte(i >> 8), byte(i)})
	}
	change("every slice changed", 4, 16, func() { x.Replace(KindEndpointSlice, endpointSlices) })
	for _, o := range imports {
		o.(*ServiceImport).Headless = false
	}
	change("every import changed", 4, 5, func() { x.Replace(KindServiceImport, imports) })
	change("every import is gone", 4, 5, func() { x.Replace(KindServiceImport, nil) })
	if n := len(x.Snapshot().Services()); n != 0 {
		t.Errorf("%d services are left", n)
	}
	change("every import is back", 4, 5, func() { x.Replace(KindServiceImport, imports) })
	if n := len(x.Snapshot().Services()); n != services {
		t.Errorf("%d services are back", n)
	}
}

// Several goroutines change one kind each, and portions of the changes interleave. In the end the Index answers like an Index that got
// the same objects at once.
func TestChangesOfSeveralKindsInterleave(t *testing.T) {
	const services, rounds = 2 * portionServices, 6
	opts := Options{Self: topology.Location{Zone: "zone-2", Region: "r1"}, LongestZone: len("global.")}
	x := New(opts)
	x.Publish()
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range rounds {
			clusters := listedClusters("zone-1")
			for j, o := range clusters {
				if j%rounds == i {
					o.(*Cluster).Zones[0] = "zone-2"
				}
			}
			x.Replace(KindMemberCluster, clusters)
		}
	})
	wg.Go(func() {
		for i := range rounds {
			imports, _ := listed(services)
			x.Replace(KindServiceImport, imports[i:])
		}
	})
	wg.Go(func() {
		for i := range rounds {
			_, endpointSlices := listed(services)
			for _, o := range endpointSlices[:100*i] {
				o := o.(*EndpointSlice)
				for j := range o.Endpoints {
					o.Endpoints[j].Zone = ""
				}
			}
			x.Replace(KindEndpointSlice, endpointSlices[i:])
		}
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		wg.Wait()
	}()
	var serial uint32
	for reading := true; reading; {
		select {
		case <-done:
			reading = false
		default:
			s := x.Snapshot()
			if s.Serial() < serial {
				t.Fatalf("serial %d after %d", s.Serial(), serial)
			}
			serial = s.Serial()
			runtime.Gosched()
		}
	}
	fresh := New(opts)
	fresh.Put(x.Objects()...)
	fresh.Publish()
	compareFacts(t, "after all", snapshotFacts(t, x.Snapshot()), snapshotFacts(t, fresh.Snapshot()))
}

// If fifty clusters fail at once, each service with endpoints in them is rebuilt only once; if one does, no others are.
func TestManyChangedClustersBuildAServiceOnce(t *testing.T) {
	const services = 1000
	x := relisted(services, nil)
	cost := func(kind Kind, objects []Object) uint64 {
		var was, is runtime.MemStats
		runtime.ReadMemStats(&was)
		x.Replace(kind, objects)
		runtime.ReadMemStats(&is)
		return (is.TotalAlloc - was.TotalAlloc) / services
	}
	imports, _ := listed(services)
	for _, o := range imports {
		o.(*ServiceImport).Ports[0].Number = 81
	}
	once := cost(KindServiceImport, imports)
	if all := cost(KindMemberCluster, listedClusters("zone-2")); all > once*3/2 {
		t.Errorf("%d bytes for each service, and %d where the service itself changes", all, once)
	}
	clusters := listedClusters("zone-2")
	clusters[7].(*Cluster).Phase = topology.Suspect // has endpoints of three in fifty services
	if one := cost(KindMemberCluster, clusters); one > once/10 {
		t.Errorf("%d bytes for each service if one cluster changes, and %d where the service itself does", one, once)
	}
}

// A change of a single field isn't dropped as if it were none.
func TestAChangeOfAnyFieldIsSeen(t *testing.T) {
	e, tried := newEditor(t, randomBytes(1, 100_000)), map[string]bool{}
	for len(e.data) > 0 {
		kind := Kinds[e.roll(int(KindReachability))] // Objects doesn't return verdicts, which have one field
		was, other := e.object(kind), e.object(kind)
		if c, ok := other.(*Cluster); ok {
			c.Weight = 7
		}
		for _, f := range reflect.VisibleFields(reflect.TypeOf(was).Elem()) {
			is, x := clone(was), New(Options{})
			reflect.ValueOf(is).Elem().FieldByIndex(f.Index).Set(reflect.ValueOf(other).Elem().FieldByIndex(f.Index))
			tried[kind.String()+f.Name] = tried[kind.String()+f.Name] || !reflect.DeepEqual(was, is)
			x.Put(was)
			x.Put(is)
			if !slices.ContainsFunc(x.Objects(), func(held Object) bool { return reflect.DeepEqual(held, is) }) {
				t.Fatalf("%s of %+v was changed, and it is as before", f.Name, was)
			}
		}
	}
	for field, changed := range tried {
		if !changed && field != "MemberClusterUnreachable" { // which the index sets itself
			t.Errorf("%s was never changed", field)
		}
	}
}
