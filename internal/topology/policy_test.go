package topology

import (
	"slices"
	"strings"
	"testing"
)

func TestParsePrefer(t *testing.T) {
	for text, want := range map[string][]Tier{
		"none":                {},
		"zone":                {Zone},
		"cluster zone region": {Cluster, Zone, Region},
		"region cluster":      {Region, Cluster},
	} {
		got, err := ParsePrefer(text)
		if err != nil || got == nil || !slices.Equal(got, want) || FormatPrefer(got) != text {
			t.Errorf("ParsePrefer(%s) = %#v, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		"":                 "want one or more of cluster, zone and region",
		"Zone":             `unknown tier "Zone"`,
		"zone,region":      `unknown tier "zone,region"`,
		"any":              `unknown tier "any"`,
		"zone zone":        "zone is listed twice",
		"none none":        "none stands alone",
		"zone none":        "none stands alone",
		"zone region \x00": `unknown tier "\x00"`,
	} {
		if got, err := ParsePrefer(text); got != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParsePrefer(%q) = %v, %v, want an error that says %s", text, got, err, want)
		}
	}
	if got := FormatPrefer(nil); got != "" {
		t.Errorf("nothing stated reads %q", got)
	}
}

func TestParseMinReady(t *testing.T) {
	for text, want := range map[string]int{"1": 1, "3": 3, "100000": 100_000} {
		if got, err := ParseMinReady(text); got != want || err != nil {
			t.Errorf("ParseMinReady(%s) = %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "0", "-1", "1.5", "two", "100001", "9223372036854775808", " 1"} {
		if got, err := ParseMinReady(text); got != 0 || err == nil {
			t.Errorf("ParseMinReady(%q) = %d, want an error", text, got)
		}
	}
}

func TestPolicySaysWhatItStates(t *testing.T) {
	for want, p := range map[string]Policy{
		"":                                {MinReady: 1},
		"prefer none":                     {Prefer: []Tier{}},
		"prefer zone region, min-ready 2": {Prefer: []Tier{Zone, Region}, MinReady: 2},
		"boundary region":                 {Boundary: Region},
	} {
		if got := p.String(); got != want {
			t.Errorf("%+v: %s, want %s", p, got, want)
		}
	}
}

func TestPolicyOr(t *testing.T) {
	server := Policy{Prefer: []Tier{Cluster}, Boundary: Region, MinReady: 2}
	for _, tt := range []struct {
		name      string
		own, want Policy
	}{
		{"nothing stated", Policy{}, server},
		{"none is stated", Policy{Prefer: []Tier{}}, Policy{Prefer: []Tier{}, Boundary: Region, MinReady: 2}},
		{"each field on its own", Policy{Boundary: Zone}, Policy{Prefer: []Tier{Cluster}, Boundary: Zone, MinReady: 2}},
		{"all stated", Policy{Prefer: []Tier{Zone}, Boundary: Zone, MinReady: 1}, Policy{Prefer: []Tier{Zone}, Boundary: Zone, MinReady: 1}},
	} {
		if got := tt.own.Or(server); !got.Equal(tt.want) {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
	if !(Policy{}).IsZero() || (Policy{Prefer: []Tier{}}).IsZero() || (Policy{}).Equal(Policy{Prefer: []Tier{}}) {
		t.Error("none is not the same as nothing")
	}
}
