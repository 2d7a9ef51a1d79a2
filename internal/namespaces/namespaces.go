// Package namespaces selects the namespaces that a member's agent imports into and exports from.
package namespaces

import (
	"fmt"
	"path"
	"regexp"
	"strings"
)

// System are the namespaces of Kubernetes itself. They are excluded by default: a user who can export or import in kube-system could
// take over names that the clusters' own components use.
var System = []string{"kube-*"}

// Filter chooses namespaces by name. Its patterns have *, ? and [a-z], as in path.Match.
type Filter struct {
	// Include are the namespaces to select. Empty: all.
	Include []string
	// Exclude are the namespaces to leave out, even if Include has them.
	Exclude []string
}

// Has reports whether a namespace is selected. The patterns must have passed Check.
func (f Filter) Has(name string) bool {
	return !matchesAny(f.Exclude, name) && (len(f.Include) == 0 || matchesAny(f.Include, name))
}

// possible matches patterns that can match the name of a namespace, which is a DNS label.
var possible = regexp.MustCompile(`^[-a-z0-9*?^\[\]]+$`)

// Check returns an error that says which pattern is wrong and what would be right.
func Check(patterns []string) error {
	for _, p := range patterns {
		if _, err := path.Match(p, ""); err != nil || !possible.MatchString(p) {
			return fmt.Errorf("namespace pattern %q: want a name (a-z, 0-9 and '-'), or a pattern such as team-*", p)
		}
	}
	return nil
}

func matchesAny(patterns []string, name string) bool {
	for _, p := range patterns {
		if ok, _ := path.Match(p, name); ok {
			return true
		}
	}
	return false
}

// String returns the filter in the syntax of the agent's flags.
func (f Filter) String() string {
	s := "all namespaces"
	if len(f.Include) > 0 {
		s = strings.Join(f.Include, ",")
	}
	if len(f.Exclude) > 0 {
		s += " but " + strings.Join(f.Exclude, ",")
	}
	return s
}
