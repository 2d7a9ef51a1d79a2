package index

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/clusterset/clusterset/internal/topology"
)

var (
	long = strings.Repeat("l", 63)
	// Endpoint long of a cluster named fits, of service long in namespace long, has the longest possible name in clusterset.local.
	fits    = strings.Repeat("f", 254-3*len(long+".")-len(".svc.clusterset.local."))
	tooLong = fits + "f"

	editNamespaces = []string{"n0", long}
	editServices   = []string{"a", "b", long}
	editClusters   = []string{"c1", "c2", "b", "a.b", "", strings.Repeat("c", 61) + ".b", fits, tooLong}
	editZones      = []string{"", "z1", "z2"}
	editRegions    = []string{"", "r1", "r2"}
	editHostnames  = []string{"", "h0", "a", long}
	editAddrs      = []netip.Addr{
		netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("9.255.0.3"),
		netip.MustParseAddr("fd00::1"), netip.MustParseAddr("::9"), netip.MustParseAddr("fd00::"),
	}
	editPorts = []Port{
		{"http", 80, TCP}, {"http", 8080, TCP}, {"dns", 53, UDP}, {"dns", 53, TCP}, {"", 9, TCP}, {"", 10, TCP}, {"m", 80, SCTP},
	}
)

func newEditor(t *testing.T, data []byte) *editor {
	e := &editor{t: t, data: data, now: time.Unix(1_800_000_000, 0), given: map[Object]string{}}
	opts := Options{
		Self:        topology.Location{Cluster: pick(e, []string{"c1", "a.b", "", "other"}), Zone: pick(e, editZones), Region: pick(e, editRegions)},
		LongestZone: len(pick(e, []string{"clusterset.local.", "", "global."})),
		Policy: topology.Policy{
			Prefer: pick(e, [][]topology.Tier{
				nil,
				{topology.Cluster, topology.Zone, topology.Region},
				{topology.Region, topology.Zone},
				{topology.Zone},
				{topology.Region, topology.Cluster},
				{},
			}),
			Boundary: pick(e, []topology.Tier{topology.Any, topology.Any, topology.Region, topology.Zone, topology.Cluster}),
			MinReady: pick(e, []int{0, 0, 1, 2}),
		},
		Namespaces: pick(e, [][]string{nil, nil, {"n0"}, {"n0", long}, {}}),
		Now:        func() time.Time { return e.now },
	}
	e.index, e.world = New(opts), newWorld(opts)
	return e
}

// roll reads a number below n from the bytes, or 0 after their end.
func (e *editor) roll(n int) int {
	if len(e.data) == 0 {
		return 0
	}
	b := e.data[0]
	e.data = e.data[1:]
	return int(b) % n
}

func pick[T any](e *editor, from []T) T { return from[e.roll(len(from))] }

func (e *editor) object(kind Kind) Object {
	ns := pick(e, editNamespaces)
	key := NewServiceKey(ns, pick(e, editServices))
	var o Object
	switch kind {
	case KindServiceImport:
		imp := &ServiceImport{Service: key, Headless: e.roll(3) > 0, Ports: e.ports(), Policy: e.policy()}
		if !imp.Headless {
			imp.IPs, imp.FromImporter = SortAddrs(e.addrs(2)), e.roll(2) > 0
		}
		o = imp
	case KindEndpointSlice:
		// There are four slice names per namespace and three services, so a slice often moves to another service.
		o = &EndpointSlice{Namespace: ns, Name: pick(e, []string{"s1", "s2", "s3", "s4"}), Service: key, Group: e.group()}
	case KindGlobalService:
		g := &GlobalService{Service: key, Headless: e.roll(2) > 0, Ports: e.ports(), Policy: e.policy()}
		for range e.roll(4) {
			g.Groups = append(g.Groups, e.group())
		}
		o = g
	case KindMemberCluster:
		name := pick(e, editClusters)
		if name == "" {
			name = "c1" // a MemberCluster must have a name
		}
		c := &Cluster{Name: name}
		if zone := pick(e, editZones); zone != "" {
			c.Zones = append(c.Zones, zone)
		}
		if e.roll(4) == 3 {
			c.Zones = []string{"z1", "z2"}
		}
		c.Region, c.Phase, c.Drain = pick(e, editRegions), topology.Phase(e.roll(3)), e.roll(4) == 3
		o = c
	case KindReachability:
		r := &Reachability{}
		for _, cluster := range []string{"a.b", "b", "c1", "c2"} {
			if e.roll(3) == 2 {
				r.Unreachable = append(r.Unreachable, cluster)
			}
		}
		o = r
	}
	e.given[o] = describe(o)
	return o
}

// policy returns a service's policy, or nil for half of the services.
func (e *editor) policy() *topology.Policy {
	if e.roll(2) == 0 {
		return nil
	}
	return &topology.Policy{
		Prefer:   pick(e, [][]topology.Tier{nil, {}, {topology.Cluster}, {topology.Zone, topology.Region}, {topology.Region}}),
		Boundary: pick(e, []topology.Tier{topology.Any, topology.Any, topology.Region, topology.Zone, topology.Cluster}),
		MinReady: pick(e, []int{0, 1, 2, 3}),
		Shares:   pick(e, []map[string]int{nil, nil, {"c1": 0}, {"c1": 50, "c2": 34}, {"": 1, "a.b": 99}}),
	}
}

func (e *editor) group() Group {
	g := Group{Cluster: pick(e, editClusters), Region: editRegions[max(0, e.roll(4)-1)], Ports: e.ports()}
	for range e.roll(4) {
		g.Endpoints = append(g.Endpoints, Endpoint{
			Addr: pick(e, editAddrs), Hostname: pick(e, editHostnames), Zone: editZones[max(0, e.roll(4)-1)], Ready: e.roll(4) > 0,
		})
	}
	return g
}

func (e *editor) ports() []Port {
	var ports []Port
	for range e.roll(4) {
		if p := pick(e, editPorts); !slices.Contains(ports, p) {
			ports = append(ports, p)
		}
	}
	return ports
}

func (e *editor) addrs(most int) []netip.Addr {
	var addrs []netip.Addr
	for range e.roll(most + 1) {
		addrs = append(addrs, pick(e, editAddrs))
	}
	return addrs
}

func clone(o Object) Object {
	c := reflect.New(reflect.TypeOf(o).Elem())
	c.Elem().Set(reflect.ValueOf(o).Elem())
	return c.Interface().(Object)
}

func describe(o Object) string { return fmt.Sprintf("%T%+v", o, o) }
