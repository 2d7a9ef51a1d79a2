package topology

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/clusterset/clusterset/test/rank"
)

// Two regions: north has zones n1 and n2, and south has zone s1. Clusters are named after their location or state. The cluster many is in
// both zones of the north.
var members = map[string]*Member{
	"n1":            {Zones: []string{"n1"}, Region: "north"},
	"n1b":           {Zones: []string{"n1"}, Region: "north"},
	"n2":            {Zones: []string{"n2"}, Region: "north"},
	"s1":            {Zones: []string{"s1"}, Region: "south"},
	"many":          {Zones: []string{"n1", "n2"}, Region: "north"},
	"suspect":       {Zones: []string{"n1"}, Region: "north", Phase: Suspect},
	"drained":       {Zones: []string{"n1"}, Region: "north", Drain: true},
	"expired":       {Zones: []string{"n1"}, Region: "north", Phase: Expired},
	"unreachable":   {Zones: []string{"n1"}, Region: "north", Unreachable: true},
	"drained-south": {Zones: []string{"s1"}, Region: "south", Drain: true},
	"leaving":       {Zones: []string{"n1"}, Region: "north", Phase: Expired, Drain: true},
}

func TestView(t *testing.T) {
	north := Location{"n1", "n1", "north"}
	tests := []struct {
		name       string
		self       Location
		policy     Policy
		useExpired bool
		// endpoints are "<cluster>[@<own zone>]", "vip:<cluster>[*<endpoints behind it>]" for a ClusterIP, and with "spare:" in front those beyond a share.
		endpoints, want string
		tier            Tier
		degraded        bool
	}{
		{name: "own zone before the region before all", endpoints: "n1 n1b n2 s1", want: "n1 n1b", tier: Zone},
		{name: "the region where the zone has nothing", endpoints: "n2 s1", want: "n2", tier: Region},
		{name: "all where the region has nothing", endpoints: "s1 unknown", want: "s1 unknown"},
		{name: "own cluster first where preferred", policy: Policy{Prefer: []Tier{Cluster, Zone}}, endpoints: "n1 n1b s1", want: "n1", tier: Cluster},
		{name: "none: all alike", policy: Policy{Prefer: []Tier{}}, endpoints: "n1 n2 s1 unknown", want: "n1 n2 s1 unknown"},
		{name: "none: health still counts", policy: Policy{Prefer: []Tier{}}, endpoints: "s1 suspect drained expired", want: "s1"},
		{name: "none: the boundary still counts", policy: Policy{Prefer: []Tier{}, Boundary: Region}, endpoints: "n1 n2 s1", want: "n1 n2"},

		{name: "an endpoint's own zone before its cluster's", endpoints: "s1@n1 n1@n2", want: "n1@n2", tier: Region},
		{name: "an endpoint's own zone before its cluster's several", endpoints: "many@n2 n1b", want: "n1b", tier: Zone},
		{name: "a cluster in several zones is in each", endpoints: "many n2", want: "many", tier: Zone},
		{name: "the ClusterIP of a cluster in several zones is in each", self: Location{"x", "n2", "north"}, endpoints: "vip:many vip:n1", want: "vip:many", tier: Zone},
		{name: "the own ClusterIP is never further than another's", self: Location{"s1", "n1", "north"}, endpoints: "vip:s1 vip:n1 n1b", want: "vip:s1 vip:n1 n1b", tier: Zone},
		{name: "nor outside the boundary", self: Location{"s1", "n1", "north"}, policy: Policy{Boundary: Zone}, endpoints: "vip:s1 vip:n2", want: "vip:s1", tier: Zone},
		{name: "an own pod is where it is", self: Location{"s1", "n1", "north"}, endpoints: "s1 n1", want: "n1", tier: Zone},

		{name: "nothing outside of the boundary, even if that leaves nothing", policy: Policy{Boundary: Zone}, endpoints: "n2 s1 unknown", want: ""},
		{name: "an unknown place is outside of any boundary", self: Location{"n1", "", ""}, policy: Policy{Boundary: Region}, endpoints: "n1 n2", want: ""},
		{name: "the boundary comes before health", policy: Policy{Boundary: Zone}, endpoints: "drained n2", want: "drained", tier: Zone, degraded: true},

		{name: "healthy ones of any tier before suspect and drained", endpoints: "suspect drained s1", want: "s1"},
		{name: "suspect and drained where nothing else is left", endpoints: "suspect drained expired", want: "suspect drained", tier: Zone, degraded: true},
		{name: "unreachable ones are no better than suspect and drained", endpoints: "suspect drained unreachable expired", want: "suspect drained unreachable", tier: Zone, degraded: true},
		{name: "unreachable ones where a healthy one is left", endpoints: "unreachable s1", want: "s1"},
		{name: "the own cluster is never unreachable", self: Location{"unreachable", "n1", "north"}, endpoints: "unreachable s1", want: "unreachable", tier: Zone},
		{name: "expired are gone from a name", endpoints: "expired leaving", want: ""},
		{name: "expired are an address's last resort", useExpired: true, endpoints: "expired leaving", want: "expired leaving", tier: Zone, degraded: true},
		{name: "but the last of all", useExpired: true, endpoints: "expired drained", want: "drained", tier: Zone, degraded: true},
		{name: "to itself a cluster isn't suspect", self: Location{"suspect", "n1", "north"}, endpoints: "suspect n1", want: "suspect n1", tier: Zone},
		{name: "nor expired", self: Location{"expired", "n1", "north"}, endpoints: "expired n2", want: "expired", tier: Zone},
		{name: "but drained", self: Location{"drained", "n1", "north"}, endpoints: "drained s1", want: "s1"},
		{name: "drained and expired is drained to itself", self: Location{"leaving", "n1", "north"}, endpoints: "leaving s1", want: "s1"},
		{name: "drained and expired is not gone to itself", self: Location{"leaving", "n1", "north"}, endpoints: "leaving", want: "leaving", tier: Zone, degraded: true},

		{name: "spare ones rank as those of a drained cluster", endpoints: "spare:n1 drained s1", want: "s1"},
		{name: "also in their own cluster, with the healthy ones of it first", endpoints: "spare:n1 n1@n2 n1b@n2", want: "n1@n2 n1b@n2", tier: Region},
		{name: "spare ones where nothing else is left, by their tier", endpoints: "spare:n1 spare:vip:n2 drained", want: "spare:n1 drained", tier: Zone, degraded: true},
		{name: "spare and expired is expired", useExpired: true, endpoints: "spare:expired spare:s1", want: "spare:s1", degraded: true},

		{name: "enough in the zone", policy: Policy{MinReady: 2}, endpoints: "n1 n1b n2 s1", want: "n1 n1b", tier: Zone},
		{name: "too few in the zone: the region joins", policy: Policy{MinReady: 2}, endpoints: "n1 n2 s1", want: "n1 n2", tier: Region},
		{name: "the whole region joins", policy: Policy{MinReady: 2}, endpoints: "n1 n2 n2 s1", want: "n1 n2 n2", tier: Region},
		{name: "too few in the region: all", policy: Policy{MinReady: 3}, endpoints: "n1 n2 s1 unknown", want: "n1 n2 s1 unknown"},
		{name: "too few anywhere: all", policy: Policy{MinReady: 9}, endpoints: "n1 s1", want: "n1 s1"},
		{name: "an empty tier is no tier", policy: Policy{MinReady: 2}, endpoints: "n2 n2 s1", want: "n2 n2", tier: Region},
		{name: "too few healthy ones: the degraded don't join", policy: Policy{MinReady: 9}, endpoints: "n1 suspect drained", want: "n1", tier: Zone},
		{name: "the degraded are counted among themselves", policy: Policy{MinReady: 2}, endpoints: "drained suspect@n2 drained-south", want: "drained suspect@n2", tier: Region, degraded: true},
		{name: "what is outside of the boundary isn't counted", policy: Policy{MinReady: 2, Boundary: Region}, endpoints: "n1 s1", want: "n1", tier: Zone},
		{name: "endpoints behind a ClusterIP are counted", policy: Policy{MinReady: 3}, endpoints: "vip:n1*3 vip:n2*9", want: "vip:n1*3", tier: Zone},
		{name: "and too few of them", policy: Policy{MinReady: 4}, endpoints: "vip:n1*3 vip:n2*1 vip:s1*1", want: "vip:n1*3 vip:n2*1", tier: Region},
	}
	for _, tt := range tests {
		if tt.self == (Location{}) {
			tt.self = north
		}
		v := View{Self: tt.self, Policy: tt.policy, UseExpired: tt.useExpired}
		words := strings.Fields(tt.endpoints)
		endpoints := make([]Endpoint, len(words))
		for i, word := range words {
			endpoints[i] = endpointOf(t, i, word)
		}
		ranks, last := v.Choose(endpoints)
		var used []string
		for i, word := range words {
			if ranks[i] <= last && last.Usable() {
				used = append(used, word)
			}
		}
		if got := strings.Join(used, " "); got != tt.want {
			t.Errorf("%s: used are %q, want %q (ranks %v up to %v)", tt.name, got, tt.want, ranks, last)
		}
		if v.Tier(last) != tt.tier || last.Degraded() != tt.degraded {
			t.Errorf("%s: tier %v, degraded %v, want %v, %v", tt.name, v.Tier(last), last.Degraded(), tt.tier, tt.degraded)
		}
	}
}

func endpointOf(t *testing.T, i int, word string) Endpoint {
	e := Endpoint{Addr: netip.AddrFrom4([4]byte{10, 0, 0, byte(i)})}
	word, e.Spare = strings.CutPrefix(word, "spare:")
	e.Cluster, e.ClusterIP = strings.CutPrefix(word, "vip:")
	e.Cluster, e.Zone, _ = strings.Cut(e.Cluster, "@")
	if name, behind, ok := strings.Cut(e.Cluster, "*"); ok {
		e.Cluster = name
		if _, err := fmt.Sscan(behind, &e.Behind); err != nil {
			t.Fatal(err)
		}
	}
	e.Member = members[e.Cluster]
	return e
}

// While an endpoint moves from one slice to another, it is in both for a moment, but counts once. An endpoint with an address of each
// family counts once too.
func TestMinReadyCountsEndpointsOnce(t *testing.T) {
	v4, v6 := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")
	other := netip.MustParseAddr("10.0.0.2")
	at := func(addr netip.Addr, zone string) Endpoint {
		return Endpoint{Addr: addr, Cluster: "n1", Zone: zone, Region: "north"}
	}
	view := View{Self: Location{"n1", "n1", "north"}, Policy: Policy{MinReady: 2}}
	for _, tt := range []struct {
		name      string
		endpoints []Endpoint
		want      Tier
	}{
		{"one address twice", []Endpoint{at(v4, "n1"), at(v4, "n1"), at(other, "n2")}, Region},
		{"one address in two zones is in the nearer", []Endpoint{at(v4, "n2"), at(other, "n1"), at(v4, "n1")}, Zone},
		{"both families of one", []Endpoint{at(v4, "n1"), at(v6, "n1"), at(other, "n2")}, Region},
		{"two of one family", []Endpoint{at(v4, "n1"), at(v6, "n1"), at(other, "n1")}, Zone},
	} {
		if _, last := view.Choose(tt.endpoints); view.Tier(last) != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, view.Tier(last), tt.want)
		}
	}
}

func TestRankingAllocatesNothing(t *testing.T) {
	var endpoints []Endpoint
	for i := range 100 {
		endpoints = append(endpoints, endpointOf(t, i, []string{"n1", "n2@n1", "s1", "drained"}[i%4]))
	}
	v := View{Self: Location{"n1", "n1", "north"}}
	if n := testing.AllocsPerRun(10, func() { v.Choose(endpoints) }); n > 1 {
		t.Errorf("%v allocations for 100 endpoints, want no more than the ranks themselves", n)
	}
	v.Policy.MinReady = 50
	if n := testing.AllocsPerRun(10, func() { v.Choose(endpoints) }); n > 2 {
		t.Errorf("%v allocations with min-ready, want no more than the ranks and what is sorted", n)
	}
}

// used reports which endpoints are used.
func used(v View, endpoints []Endpoint) []bool {
	ranks, last := v.Choose(endpoints)
	in := make([]bool, len(ranks))
	for i, r := range ranks {
		in[i] = last.Usable() && r <= last
	}
	return in
}

// FuzzView compares View with an oracle for the rules A21 to A31 and A80 of docs/spec/answers.md, and D4 of docs/spec/data-path.md.
func FuzzView(f *testing.F) {
	for seed := range byte(32) {
		data := make([]byte, 60)
		for i := range data {
			data[i] = byte(i)*seed + seed*seed + byte(i*i)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, endpoints := randomWorld(&bytesSource{data})
		got, want := used(v, endpoints), oracle(v, endpoints)
		if !slices.Equal(got, want) {
			t.Fatalf("from %v by %+v, expired %v:\n%s\nused %v\nwant %v", v.Self, v.Policy, v.UseExpired, describe(endpoints), got, want)
		}
		// The order of endpoints doesn't matter.
		slices.Reverse(endpoints)
		got = used(v, endpoints)
		slices.Reverse(got)
		if !slices.Equal(got, want) {
			t.Errorf("in reverse order used are %v, want %v", got, want)
		}
	})
}

type bytesSource struct{ data []byte }

func (s *bytesSource) roll(n int) int {
	if len(s.data) == 0 {
		return 0
	}
	b := s.data[0]
	s.data = s.data[1:]
	return int(b) % n
}

func randomWorld(s *bytesSource) (View, []Endpoint) {
	zones, regions, clusters := []string{"", "z1", "z2"}, []string{"", "r1", "r2"}, []string{"", "c1", "c2", "c3"}
	v := View{
		Self: Location{clusters[s.roll(4)], zones[s.roll(3)], regions[s.roll(3)]},
		Policy: Policy{
			Prefer: [][]Tier{
				nil, {Cluster, Zone, Region}, {Region, Zone}, {Zone}, {Region, Cluster}, {},
			}[s.roll(6)],
			Boundary: []Tier{Any, Any, Region, Zone, Cluster}[s.roll(5)],
			MinReady: []int{0, 1, 2, 3, 5}[s.roll(5)],
		},
		UseExpired: s.roll(2) == 1,
	}
	known := map[string]*Member{}
	for _, c := range clusters[1:] {
		if s.roll(4) == 0 {
			continue
		}
		m := &Member{Region: regions[s.roll(3)], Phase: Phase(s.roll(3)), Drain: s.roll(4) == 0, Unreachable: s.roll(4) == 3} //nolint:gosec // below 3
		for _, z := range zones[1:] {
			if s.roll(2) == 0 {
				m.Zones = append(m.Zones, z)
			}
		}
		known[c] = m
	}
	endpoints := make([]Endpoint, s.roll(9))
	for i := range endpoints {
		e := Endpoint{
			Addr:    netip.AddrFrom4([4]byte{10, 0, 0, byte(s.roll(12))}),
			Cluster: clusters[s.roll(4)], Zone: zones[s.roll(3)], Region: regions[s.roll(3)], ClusterIP: s.roll(3) == 0, Spare: s.roll(4) == 3,
		}
		if s.roll(4) == 0 {
			e.Addr = netip.AddrFrom16([16]byte{0: 0xfd, 15: byte(s.roll(4))})
		}
		e.Behind = int(e.Addr.AsSlice()[len(e.Addr.AsSlice())-1]) % 4 // derived from the address, so that it is the same in each entry of that address
		e.Member = known[e.Cluster]
		endpoints[i] = e
	}
	return v, endpoints
}

// oracle returns which endpoints the rules choose. What is near is A26 to A29, health is A22, A23 and A24, and the rest A25, A29, A30 and A31.
func oracle(v View, endpoints []Endpoint) []bool {
	all := make([]rank.Endpoint, len(endpoints))
	for i, e := range endpoints {
		var m Member
		if e.Member != nil {
			m = *e.Member
		}
		all[i] = rank.Endpoint{
			Addr: e.Addr, Cluster: e.Cluster, Zones: m.Zones, Region: cmp.Or(e.Region, m.Region), ClusterIP: e.ClusterIP, Behind: e.Behind, Spare: e.Spare,
			Drained: m.Drain, Suspect: m.Phase == Suspect, Expired: m.Phase == Expired, Unreachable: m.Unreachable,
		}
		if e.Zone != "" {
			all[i].Zones = []string{e.Zone}
		}
	}
	used, _ := rank.Server(v.Self).Best(rank.PolicyOf(v.Policy.Prefer, v.Policy.Boundary, v.Policy.MinReady), v.UseExpired, all)
	return used
}

func describe(endpoints []Endpoint) string {
	var b strings.Builder
	for _, e := range endpoints {
		fmt.Fprintf(&b, "%+v", e)
		if e.Member != nil {
			fmt.Fprintf(&b, " of %+v", *e.Member)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func TestMember(t *testing.T) {
	same := Member{Zones: []string{"n1"}, Region: "north"}
	for _, c := range []struct {
		ailment string
		m       Member
	}{
		{"", Member{Zones: []string{"n1"}}},
		{"", Member{Zones: []string{"n2"}, Region: "north"}},
		{"Expired", Member{Zones: []string{"n1"}, Region: "north", Phase: Expired}},
		{"Suspect", Member{Zones: []string{"n1"}, Region: "north", Phase: Suspect}},
		{"drained", Member{Zones: []string{"n1"}, Region: "north", Drain: true}},
		{"unreachable", Member{Zones: []string{"n1"}, Region: "north", Unreachable: true}},
	} {
		if got := c.m.Ailment(); got != c.ailment {
			t.Errorf("%+v is %s, want %s", c.m, got, c.ailment)
		}
		if again := c.m; !c.m.Equal(again) || c.m.Equal(same) {
			t.Errorf("%+v equals itself: %t, and %+v: %t", c.m, c.m.Equal(again), same, c.m.Equal(same))
		}
	}
	if got, want := same.Location("a"), (Location{Cluster: "a", Zone: "n1", Region: "north"}); got != want {
		t.Errorf("a is in %s, want %s", got, want)
	}
	if got := (&Member{Zones: []string{"n1", "n2"}}).Location("a"); got.Zone != "" {
		t.Errorf("a cluster in two zones is in %s", got)
	}
	if (expired - 1).LastResort() || !expired.LastResort() || Outside.LastResort() {
		t.Error("only the endpoints of Expired clusters that are used are a last resort")
	}
}

// Choose ranks the endpoints. Those with a rank up to last are used, or none if last isn't Usable.
func (v *View) Choose(endpoints []Endpoint) (ranks []Rank, last Rank) {
	ranks = make([]Rank, len(endpoints))
	for i := range endpoints {
		ranks[i] = v.Rank(&endpoints[i])
	}
	return ranks, v.Last(len(endpoints), func(i int) Ranked {
		return Ranked{ranks[i], endpoints[i].Addr, endpoints[i].Behind}
	})
}
