package communities

import (
	"slices"
	"testing"
	"time"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
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
		{"two forgotten", Set{"a": {"x"}, "b": nil, "c": nil}, "c", []string{"b", "c"}},
		{"the first of a set that moves", Set{"a": {Default, "x"}, "b": nil, "c": nil}, "a", []string{"a", "b", "c"}},
		{"unknown", Set{"a": {"x"}}, "z", []string{"z"}},
		{"a community of one", Set{"a": {"x"}, "b": {"y"}}, "a", []string{"a"}},
	} {
		if got := c.set.Peers(c.of); !slices.Equal(got, c.want) {
			t.Errorf("%s: %s sees %v, want %v", c.name, c.of, got, c.want)
		}
	}
}

func TestOn(t *testing.T) {
	for _, c := range []struct {
		set  Set
		want bool
	}{
		{nil, false},
		{Set{"a": nil, "b": {}}, false},
		{Set{"a": {Default}, "b": nil}, false},
		{Set{"a": nil, "b": {"x"}}, true},
		{Set{"a": {Default, "x"}}, true},
	} {
		if got := c.set.On(); got != c.want {
			t.Errorf("%v is on: %v", c.set, got)
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

// A set can adopt communities, or abandon them, one member at a time in the way that the package doc describes. Two members that see
// each other before and after always do in between.
func TestMovingPartsNobodyWhoStays(t *testing.T) {
	from := Set{"a": nil, "b": nil, "c": nil, "d": nil}
	to := Set{"a": {"x"}, "b": {"x", "y"}, "c": {"y"}, "d": {"x"}}
	stays := func(step string, now Set) {
		t.Helper()
		for a := range from {
			for b := range from {
				if from.Sees(a, b) && to.Sees(a, b) && !now.Sees(a, b) {
					t.Errorf("%s: %s and %s don't see each other in %v", step, a, b, now)
				}
			}
		}
	}
	now := Set{"a": nil, "b": nil, "c": nil, "d": nil}
	names := []string{"c", "a", "d", "b"}
	for _, m := range names {
		now[m] = append([]string{Default}, to[m]...)
		stays("into", now)
	}
	for _, m := range names {
		now[m] = to[m]
		stays("out of the default", now)
	}
	for _, m := range names {
		now[m] = append([]string{Default}, to[m]...)
		stays("back into the default", now)
	}
	for _, m := range names {
		now[m] = nil
		stays("back", now)
	}
}

func TestRead(t *testing.T) {
	member := func(name string, left bool, in ...string) (m clustersetv1alpha1.MemberCluster) {
		m.Name, m.Spec.Communities = name, in
		if left {
			m.SetLeft(time.Unix(1e9, 0))
		}
		return m
	}
	for what, c := range map[string]struct {
		all  []clustersetv1alpha1.MemberCluster
		want []string
	}{
		"nobody is in any":              {[]clustersetv1alpha1.MemberCluster{member("a", false), member("b", false)}, nil},
		"itself comes first":            {[]clustersetv1alpha1.MemberCluster{member("a", false, "x"), member("b", false, "x"), member("c", false)}, []string{"b", "a"}},
		"one left":                      {[]clustersetv1alpha1.MemberCluster{member("a", true, "x"), member("b", false, "x"), member("c", false, "x")}, []string{"b", "c"}},
		"the only one in any left":      {[]clustersetv1alpha1.MemberCluster{member("a", true, "x"), member("b", false)}, nil},
		"itself is being deleted":       {[]clustersetv1alpha1.MemberCluster{member("a", false, "x"), member("b", true, "x")}, []string{"b", "a"}},
		"the hub doesn't have it (yet)": {[]clustersetv1alpha1.MemberCluster{member("a", false, "x"), member("c", false, Default, "x")}, []string{"b", "c"}},
	} {
		if got := Read(c.all, "b"); !slices.Equal(got, c.want) {
			t.Errorf("%s: it reads the records of %v, want %v", what, got, c.want)
		}
	}
}

// Rule C19 of docs/spec/control-plane.md.
func TestExportTo(t *testing.T) {
	for _, c := range []struct {
		to     []string
		member string
		of     []string
		want   bool
	}{
		{nil, "b", nil, true},
		{[]string{"b"}, "b", nil, true},
		{[]string{"b"}, "c", nil, false},
		{[]string{"y"}, "b", []string{"x", "y"}, true},
		{[]string{"y"}, "c", []string{"z"}, false},
		{[]string{"nobody"}, "b", []string{"x"}, false},
		{[]string{Default}, "b", nil, true},
		{[]string{Default}, "b", []string{"x"}, false},
	} {
		if got := Allows(c.to, c.member, c.of); got != c.want {
			t.Errorf("an export to %v, for %s in %v: %v", c.to, c.member, c.of, got)
		}
	}
}
