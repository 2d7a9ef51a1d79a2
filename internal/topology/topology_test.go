package topology

import "testing"

func TestWithin(t *testing.T) {
	tests := []struct {
		name        string
		tier        Tier
		self, other Location
		want        bool
	}{
		{"anything is within any", Any, Location{}, Location{}, true},
		{"equal zones", Zone, Location{Zone: "a"}, Location{Zone: "a"}, true},
		{"an unknown zone matches no unknown zone", Zone, Location{}, Location{}, false},
		{"equal zones, contradicting regions", Zone, Location{Zone: "a", Region: "n"}, Location{Zone: "a", Region: "s"}, false},
		{"equal zones, one region unknown", Zone, Location{Zone: "a", Region: "n"}, Location{Zone: "a"}, true},
		{"equal regions", Region, Location{Zone: "a", Region: "n"}, Location{Zone: "b", Region: "n"}, true},
		{"an unknown region matches no unknown region", Region, Location{Zone: "a"}, Location{Zone: "a"}, false},
		{"equal clusters", Cluster, Location{Cluster: "c"}, Location{Cluster: "c", Zone: "z"}, true},
		{"an unknown cluster matches no unknown cluster", Cluster, Location{}, Location{}, false},
	}
	for _, tt := range tests {
		if got := tt.self.Within(tt.tier, tt.other); got != tt.want {
			t.Errorf("%s: Within(%v) = %v, want %v", tt.name, tt.tier, got, tt.want)
		}
	}
}

// FabDNS's design document ranks four cities; the same ranks must hold here.
func TestRankFourCities(t *testing.T) {
	cities := map[string]Location{
		"xicheng":      {"xicheng", "beijing", "north"},
		"chaoyang":     {"chaoyang", "beijing", "north"},
		"minhang":      {"minhang", "shanghai", "south"},
		"shijiazhuang": {"shijiazhuang", "hebei", "north"},
	}
	tests := []struct {
		self Location
		want map[string]int
	}{
		{Location{"haidian", "beijing", "north"}, map[string]int{"xicheng": 0, "chaoyang": 0, "shijiazhuang": 1, "minhang": 2}},
		{Location{"tianjin", "tianjin", "north"}, map[string]int{"xicheng": 1, "chaoyang": 1, "shijiazhuang": 1, "minhang": 2}},
		{Location{"xian", "xian", "west"}, map[string]int{"xicheng": 2, "chaoyang": 2, "shijiazhuang": 2, "minhang": 2}},
	}
	for _, tt := range tests {
		for city, want := range tt.want {
			if got, _, ok := (Policy{}).Rank(tt.self, cities[city]); got != want || !ok {
				t.Errorf("from %v: Rank(%s) = %d, %v, want %d", tt.self, city, got, ok, want)
			}
		}
	}
}

func TestRankPolicy(t *testing.T) {
	self := Location{"c1", "z1", "r1"}
	tests := []struct {
		name   string
		policy Policy
		other  Location
		rank   int
		tier   Tier
		ok     bool
	}{
		{"own cluster first where preferred", Policy{Prefer: []Tier{Cluster, Zone}}, Location{"c1", "z2", "r2"}, 0, Cluster, true},
		{"own cluster counts for nothing by default", Policy{}, Location{"c1", "z2", "r2"}, 2, Any, true},
		{"zone after cluster", Policy{Prefer: []Tier{Cluster, Zone}}, Location{"c2", "z1", ""}, 1, Zone, true},
		{"inside the boundary", Policy{Boundary: Region}, Location{"c2", "z2", "r1"}, 1, Region, true},
		{"outside the boundary", Policy{Boundary: Region}, Location{"c2", "z2", "r2"}, 0, Any, false},
		{"unknown region is outside a region boundary", Policy{Boundary: Region}, Location{"c2", "z1", ""}, 0, Any, false},
		{"no preference: all alike", Policy{Prefer: []Tier{}}, Location{"c2", "z1", "r1"}, 0, Any, true},
	}
	for _, tt := range tests {
		rank, tier, ok := tt.policy.Rank(self, tt.other)
		if rank != tt.rank || tier != tt.tier || ok != tt.ok {
			t.Errorf("%s: Rank = %d, %v, %v, want %d, %v, %v", tt.name, rank, tier, ok, tt.rank, tt.tier, tt.ok)
		}
	}
}

func TestParseTier(t *testing.T) {
	for _, s := range []string{"cluster", "zone", "region"} {
		if tier, err := ParseTier(s); err != nil || tier.String() != s {
			t.Errorf("ParseTier(%q) = %v, %v", s, tier, err)
		}
	}
	for _, s := range []string{"", "any", "Zone", "planet"} {
		if _, err := ParseTier(s); err == nil {
			t.Errorf("ParseTier(%q): want an error", s)
		}
	}
}
