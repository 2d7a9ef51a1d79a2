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

func TestLocation(t *testing.T) {
	for _, c := range []struct {
		l    Location
		says string
		has  []bool // in the order of the tiers
	}{
		{Location{}, "- - -", []bool{true, false, false, false}},
		{Location{Cluster: "a", Region: "north"}, "a - north", []bool{true, true, false, true}},
		{Location{Zone: "n1"}, "- n1 -", []bool{true, false, true, false}},
	} {
		if got := c.l.String(); got != c.says {
			t.Errorf("%+v says %s, want %s", c.l, got, c.says)
		}
		for tier, want := range c.has {
			if got := c.l.Has(Tier(tier)); got != want {
				t.Errorf("%s has %s: %t", c.says, Tier(tier), got)
			}
		}
	}
	if got := Tier(len(tierNames)).String(); got != "tier(4)" {
		t.Errorf("what isn't a tier says %s", got)
	}
}
