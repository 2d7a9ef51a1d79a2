package namespaces

import (
	"strings"
	"testing"
)

func TestFilter(t *testing.T) {
	for _, c := range []struct {
		name      string
		filter    Filter
		namespace string
		want      bool
	}{
		{"everything", Filter{}, "kube-system", true},
		{"what is included", Filter{Include: []string{"shop", "team-*"}}, "team-a", true},
		{"nothing else", Filter{Include: []string{"shop", "team-*"}}, "other", false},
		{"a name is no prefix", Filter{Include: []string{"shop"}}, "shop-2", false},
		{"exclusion counts first", Filter{Include: []string{"team-*"}, Exclude: []string{"team-b"}}, "team-b", false},
		{"a class", Filter{Include: []string{"team-[a-c]"}}, "team-d", false},
		{"one letter", Filter{Include: []string{"team-?"}}, "team-d", true},
		{"the system's", Filter{Exclude: System}, "kube-public", false},
		{"not the system's", Filter{Exclude: System}, "kubernetes-dashboard", true},
	} {
		if got := c.filter.Has(c.namespace); got != c.want {
			t.Errorf("%s: %s has %s: %v", c.name, c.filter, c.namespace, got)
		}
	}
}

func TestFilterSaysWhatItSelects(t *testing.T) {
	for want, f := range map[string]Filter{
		"all namespaces":            {},
		"all namespaces but kube-*": {Exclude: System},
		"shop,team-*":               {Include: []string{"shop", "team-*"}},
		"team-* but team-a,team-b":  {Include: []string{"team-*"}, Exclude: []string{"team-a", "team-b"}},
	} {
		if got := f.String(); got != want {
			t.Errorf("%+v: %s, want %s", f, got, want)
		}
	}
}

// A pattern that can't match any namespace is an error: as a filter of exports, it would withdraw all of them.
func TestPatternsThatCannotBe(t *testing.T) {
	for _, p := range []string{"", "a/b", "[", "Shop", "shop ", "team_*", `a\b`, "\x1b[2J", "shop\n", "店"} {
		if err := Check([]string{"ok", p}); err == nil || !strings.Contains(err.Error(), "such as team-*") || strings.ContainsAny(err.Error(), "\x1b\n") {
			t.Errorf("%q: %v", p, err)
		}
	}
	if err := Check([]string{"shop", "team-*", "a?", "[a-z]-1", "[^k]*"}); err != nil {
		t.Error(err)
	}
}
