package communities

import (
	"slices"
	"testing"
)

func TestPeers(t *testing.T) {
	for _, c := range []struct {
		name string
		set  Set
		of   string
		want []string
	}{
		{"nobody is in any", Set{"a": nil, "b": nil, "c": {}}, "a", []string{"a", "b", "c"}},
		{"one shared", Set{"a": {"x"}, "b": {"x", "y"}, "c": {"y"}}, "a", []string{"a", "b"}},
		{"two overlapping", Set{"a": {"x"}, "b": {"x", "y"}, "c": {"y"}}, "b", []string{"a", "b", "c"}},
		{"forgotten", Set{"a": {"x"}, "b": {"x"}, "c": nil}, "c", []string{"c"}},
		{"seen by none", Set{"a": {"x"}, "b": {"x"}, "c": nil}, "a", []string{"a", "b"}},
		{"unknown", Set{"a": {"x"}}, "z", []string{"z"}},
		{"a community of one", Set{"a": {"x"}, "b": {"y"}}, "a", []string{"a"}},
	} {
		if got := c.set.Peers(c.of); !slices.Equal(got, c.want) {
			t.Errorf("%s: %s sees %v, want %v", c.name, c.of, got, c.want)
		}
	}
}

func TestSeeingIsMutual(t *testing.T) {
	set := Set{"a": {"x"}, "b": {"x", "y"}, "c": {"y"}, "d": nil}
	for a := range set {
		for b := range set {
			if set.Sees(a, b) != set.Sees(b, a) {
				t.Errorf("%s and %s", a, b)
			}
		}
	}
}

func TestExportTo(t *testing.T) {
	set := Set{"a": {"x"}, "b": {"x", "y"}, "c": {"y"}}
	for _, c := range []struct {
		to       []string
		importer string
		want     bool
	}{
		{nil, "b", true}, {[]string{"b"}, "b", true}, {[]string{"b"}, "c", false}, {[]string{"y"}, "b", true}, {[]string{"y"}, "c", true},
		{[]string{"nobody"}, "b", false}, {[]string{"nobody"}, "a", true},
	} {
		if got := set.Allows(c.to, "a", c.importer); got != c.want {
			t.Errorf("a's export to %v, for %s: %v", c.to, c.importer, got)
		}
	}
}
