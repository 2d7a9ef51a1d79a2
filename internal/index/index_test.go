package index

import (
	"fmt"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/clusterset/clusterset/internal/topology"
)

// published returns a published Index of the objects, for a server at self.
func published(self topology.Location, objects ...Object) *Index {
	x := New(Options{Self: self, LongestZone: len("clusterset.local."), Now: func() time.Time { return time.Unix(1, 0) }})
	x.Put(objects...)
	x.Publish()
	return x
}

func endpoints(addrs ...string) []Endpoint {
	var list []Endpoint
	for _, a := range addrs {
		list = append(list, Endpoint{Addr: netip.MustParseAddr(a), Ready: true})
	}
	return list
}

// The example of FabDNS's design document: four cities export one service, and only chaoyang has IPv6.
func TestFourCities(t *testing.T) {
	nginx := &GlobalService{Service: "nginx.default", Groups: []Group{
		{Cluster: "xicheng", Endpoints: endpoints("10.1.0.1")},
		{Cluster: "chaoyang", Endpoints: endpoints("10.2.0.1", "fd02::1")},
		{Cluster: "minhang", Endpoints: endpoints("10.3.0.1")},
		{Cluster: "shijiazhuang", Endpoints: endpoints("10.4.0.1")},
	}}
	cities := []Object{
		nginx,
		&Cluster{Name: "xicheng", Member: topology.Member{Zones: []string{"beijing"}, Region: "north"}},
		&Cluster{Name: "chaoyang", Member: topology.Member{Zones: []string{"beijing"}, Region: "north"}},
		&Cluster{Name: "minhang", Member: topology.Member{Zones: []string{"shanghai"}, Region: "south"}},
		&Cluster{Name: "shijiazhuang", Member: topology.Member{Zones: []string{"hebei"}, Region: "north"}},
	}
	without := func(city string, phase topology.Phase) []Object {
		return append(cities[:len(cities):len(cities)], &Cluster{Name: city, Member: topology.Member{Zones: []string{"beijing"}, Region: "north", Phase: phase}})
	}
	tests := []struct {
		name    string
		self    topology.Location
		objects []Object
		v4, v6  string
		tier    topology.Tier
	}{
		{"from beijing", topology.Location{Zone: "beijing", Region: "north"}, cities, "[10.1.0.1 10.2.0.1]", "[fd02::1]", topology.Zone},
		{"from tianjin in the north", topology.Location{Zone: "tianjin", Region: "north"}, cities, "[10.1.0.1 10.2.0.1 10.4.0.1]", "[fd02::1]", topology.Region},
		{"from the west", topology.Location{Zone: "xian", Region: "west"}, cities, "[10.1.0.1 10.2.0.1 10.3.0.1 10.4.0.1]", "[fd02::1]", topology.Any},
		{"from hebei, which has no IPv6: nobody else's", topology.Location{Zone: "hebei", Region: "north"}, cities, "[10.4.0.1]", "[]", topology.Zone},
		{"from nowhere", topology.Location{}, cities, "[10.1.0.1 10.2.0.1 10.3.0.1 10.4.0.1]", "[fd02::1]", topology.Any},
		{"from a beijing of another region", topology.Location{Zone: "beijing", Region: "south"}, cities, "[10.3.0.1]", "[]", topology.Region},
		{"from a beijing of an unknown region", topology.Location{Zone: "beijing"}, cities, "[10.1.0.1 10.2.0.1]", "[fd02::1]", topology.Zone},
		{"from beijing, chaoyang silent", topology.Location{Zone: "beijing", Region: "north"}, without("chaoyang", topology.Suspect), "[10.1.0.1]", "[]", topology.Zone},
		{"from beijing, chaoyang gone", topology.Location{Zone: "beijing", Region: "north"}, without("chaoyang", topology.Expired), "[10.1.0.1]", "[]", topology.Zone},
	}
	for _, tt := range tests {
		set := published(tt.self, tt.objects...).Snapshot().Service("nginx.default").Set(Global)
		v4, v6 := set.Addrs.Split()
		if fmt.Sprint(v4) != tt.v4 || fmt.Sprint(v6) != tt.v6 || set.Tier != tt.tier {
			t.Errorf("%s: %v and %v of tier %v, want %s and %s of %v", tt.name, v4, v6, set.Tier, tt.v4, tt.v6, tt.tier)
		}
	}
}

func TestNothingBeforePublish(t *testing.T) {
	x := New(Options{Now: func() time.Time { return time.Unix(77, 0) }})
	x.Put(&GlobalService{Service: "a.n"})
	x.Replace(KindGlobalService, []Object{&GlobalService{Service: "b.n"}})
	if x.Snapshot() != nil {
		t.Error("a Snapshot before Publish")
	}
	if n := x.Count(KindGlobalService); n != 1 {
		t.Errorf("Count before Publish = %d, want 1", n)
	}
	x.Publish()
	first := x.Snapshot()
	if first.Service("a.n") != nil || first.Service("b.n") == nil || !first.HasNamespace("n") || first.Serial() != 77 {
		t.Errorf("the first Snapshot has %v and serial %d", first.Services(), first.Serial())
	}
	x.Publish()
	if x.Snapshot() != first {
		t.Error("a second Publish makes a new Snapshot")
	}
}

func TestUpdateRebuildsOneService(t *testing.T) {
	var objects []Object
	for i := range 500 {
		ns := fmt.Sprintf("n%d", i%7)
		key := NewServiceKey(ns, fmt.Sprintf("s%d", i))
		objects = append(objects, &ServiceImport{Service: key, Headless: true},
			&EndpointSlice{Namespace: ns, Name: key.Name(), Service: key, Group: Group{Cluster: fmt.Sprintf("c%d", i%50), Endpoints: endpoints("10.0.0.1")}})
	}
	x := published(topology.Location{}, objects...)
	before := x.Snapshot()
	sameBut := func(what string, changed int, is func(*Service) bool) {
		t.Helper()
		n := 0
		for _, s := range before.Services() {
			now := x.Snapshot().Service(string(s.Key()))
			if now != s {
				n++
			}
			if (now != s) != is(s) {
				t.Errorf("%s: %s rebuilt: %v", what, s.Key(), now != s)
			}
		}
		if n != changed {
			t.Errorf("%s: %d services rebuilt, want %d", what, n, changed)
		}
		before = x.Snapshot()
	}
	x.Put(&EndpointSlice{Namespace: "n0", Name: "s7", Service: "s7.n0", Group: Group{Cluster: "c7", Endpoints: endpoints("10.0.0.2")}})
	sameBut("one slice", 1, func(s *Service) bool { return s.Key() == "s7.n0" })
	x.Put(&Cluster{Name: "c7", Member: topology.Member{Phase: topology.Suspect}})
	sameBut("one cluster", 10, func(s *Service) bool { return s.slices[0].Cluster == "c7" })
	x.Put(&Cluster{Name: "c7", Member: topology.Member{Phase: topology.Suspect}})
	sameBut("the cluster again", 0, func(*Service) bool { return false })
	x.Put(&Cluster{Name: "elsewhere", Member: topology.Member{Phase: topology.Expired}})
	sameBut("a cluster that no service uses", 0, func(*Service) bool { return false })
	x.Delete(KindEndpointSlice, ObjectID{"n0", "absent"})
	x.Delete(KindServiceImport, ObjectID{"n0", "absent"})
	sameBut("nothing that was there", 0, func(*Service) bool { return false })
	x.Delete(KindMemberCluster, ObjectID{Name: "c7"})
	sameBut("one cluster forgotten", 10, func(s *Service) bool { return s.slices[0].Cluster == "c7" })
}

// The cost of a rolling update must not grow with the number of services. Among 11,000 services, one update of a headless
// service with ten endpoints allocates at most 20 kB.
func TestUpdateCost(t *testing.T) {
	var objects []Object
	for i := range 11000 {
		ns := fmt.Sprintf("n%d", i%300)
		key := NewServiceKey(ns, fmt.Sprintf("service-%d", i))
		objects = append(objects, &ServiceImport{Service: key, Headless: true, Ports: []Port{{"http", 80, TCP}}},
			&EndpointSlice{Namespace: ns, Name: key.Name(), Service: key, Group: tenEndpoints(10)})
	}
	x := published(topology.Location{Cluster: "c1", Zone: "z1", Region: "r1"}, objects...)
	rollingUpdate := make([]Object, 20)
	for i := range rollingUpdate {
		rollingUpdate[i] = &EndpointSlice{Namespace: "n7", Name: "service-7", Service: "service-7.n7", Group: tenEndpoints(i % 11)}
	}
	const runs = 400
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := range runs {
		x.Put(rollingUpdate[i%len(rollingUpdate)])
	}
	runtime.ReadMemStats(&after)
	bytes, mallocs := (after.TotalAlloc-before.TotalAlloc)/runs, (after.Mallocs-before.Mallocs)/runs
	t.Logf("%d bytes in %d allocations an update", bytes, mallocs)
	if bytes > 20_000 {
		t.Errorf("an update allocates %d bytes, want 20,000 at most", bytes)
	}
	if n := len(x.Snapshot().Services()); n != 11000 {
		t.Errorf("%d services after that", n)
	}
}

// tenEndpoints returns a group of ten endpoints. The one with the given number is not ready.
func tenEndpoints(unready int) Group {
	g := Group{Cluster: "c2", Ports: []Port{{"http", 8080, TCP}}}
	for i := range 10 {
		g.Endpoints = append(g.Endpoints, Endpoint{Addr: netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}), Zone: "z2", Ready: i != unready})
	}
	return g
}

func TestNamespacesLimit(t *testing.T) {
	x := New(Options{Namespaces: []string{"in"}})
	x.Publish()
	for _, ns := range []string{"in", "out"} {
		x.Put(&ServiceImport{Service: NewServiceKey(ns, "a")}, &GlobalService{Service: NewServiceKey(ns, "b")},
			&EndpointSlice{Namespace: ns, Name: "a", Service: NewServiceKey(ns, "a")})
	}
	s := x.Snapshot()
	if s.Service("a.in") == nil || s.Service("b.in") == nil || s.Service("a.out") != nil || s.HasNamespace("out") || len(s.Services()) != 2 {
		t.Errorf("services %v", s.Services())
	}
	for _, kind := range []Kind{KindServiceImport, KindGlobalService, KindEndpointSlice} {
		if n := x.Count(kind); n != 1 {
			t.Errorf("Count(%s) = %d: memory is spent on what isn't served", kind, n)
		}
	}
}

// If an endpoint's name would be too long for a DNS name, the endpoint is served without one: its address is at the service's
// name, and SRV records point there.
func TestLongestHostName(t *testing.T) {
	const zone = len("clusterset.local.") // the longer of the two zones
	key := NewServiceKey(strings.Repeat("n", 63), strings.Repeat("s", 63))
	room := 254 - len(".svc.") - zone - len("."+key) - len(strings.Repeat("h", 63)+".")
	for _, tt := range []struct{ cluster, hosts int }{{room, 1}, {room + 1, 0}} {
		e := endpoints("10.0.0.1")
		e[0].Hostname = strings.Repeat("h", 63)
		set := published(topology.Location{}, &GlobalService{Service: key, Headless: true, Groups: []Group{
			{Cluster: strings.Repeat("c", tt.cluster), Ports: []Port{{"http", 80, TCP}}, Endpoints: e},
		}}).Snapshot().Service(string(key)).Set(Global)
		if len(set.Hosts) != tt.hosts || len(set.Addrs) != 1 || len(set.Clusters) != 1 || set.Targets.Len() != 1 ||
			(set.Targets.At(0).Host == ServiceItself) != (tt.hosts == 0) {
			t.Errorf("cluster name of %d characters: %+v", tt.cluster, set)
		}
		if tt.hosts == 1 {
			if name := set.Hosts[0].Key + "." + string(key) + ".svc.clusterset.local."; len(name) != 254 {
				t.Errorf("the name has %d characters, want 254: %s", len(name), name)
			}
		}
	}
}

func TestNamespaceComesAndGoesWithItsServices(t *testing.T) {
	x := published(topology.Location{})
	web := &ServiceImport{Service: "web.prod"}
	steps := []struct {
		name string
		do   func()
		want bool
	}{
		{"a slice without a service", func() { x.Put(&EndpointSlice{Namespace: "prod", Name: "1", Service: "web.prod"}) }, false},
		{"a service", func() { x.Put(web) }, true},
		{"another of the same name", func() { x.Put(&GlobalService{Service: "web.prod"}) }, true},
		{"one of them gone", func() { x.Delete(KindServiceImport, web.ID()) }, true},
		{"both gone", func() { x.Delete(KindGlobalService, web.ID()) }, false},
		{"back", func() { x.Put(web) }, true},
		{"none of the kind left", func() { x.Replace(KindServiceImport, nil) }, false},
	}
	for _, step := range steps {
		before := x.Snapshot()
		had := before.HasNamespace("prod")
		step.do()
		if got := x.Snapshot().HasNamespace("prod"); got != step.want {
			t.Errorf("%s: HasNamespace = %v, want %v", step.name, got, step.want)
		}
		if before.HasNamespace("prod") != had {
			t.Errorf("%s: the older Snapshot changed", step.name)
		}
	}
}

// A prefix, a suffix or another spelling of a service's key finds nothing.
func TestServiceIsFoundByItsKeyOnly(t *testing.T) {
	s := published(topology.Location{}, &ServiceImport{Service: "web.prod"}).Snapshot()
	for _, key := range []string{"", ".", "web", "prod", "web.", ".prod", "web.prod.", "WEB.prod", "eb.prod", "x.web.prod", strings.Repeat("a", 300)} {
		if s.Service(key) != nil {
			t.Errorf("Service(%q) is found", key)
		}
	}
	if s.Service("web.prod") == nil || !s.HasNamespace("prod") || s.HasNamespace("web") {
		t.Error("web.prod is not found")
	}
}
