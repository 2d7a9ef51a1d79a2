// Package namespaces says which namespaces a member's agent works in: those that it imports into, and those that it exports from.
package namespaces

import (
	"fmt"
	"path"
	"regexp"
	"strings"
)

// System are the namespaces of Kubernetes itself, which are left out where nobody says otherwise: who may export into or from
// kube-system can take over names that the clusters' own components use.
var System = []string{"kube-*"}

// Filter chooses namespaces by name. Its patterns have *, ? and [a-z], as in path.Match.
type Filter struct {
	// Include are the namespaces that are chosen. Empty: all.
	Include []string
	// Exclude are left out, whatever Include says.
	Exclude []string
}

// Has says whether a namespace is chosen. The patterns have been checked.
func (f Filter) Has(name string) bool {
	return !matchesAny(f.Exclude, name) && (len(f.Include) == 0 || matchesAny(f.Include, name))
}

// possible is what patterns consist of that can match a namespace's name, which is a DNS label.
var possible = regexp.MustCompile(`^[-a-z0-9*?^\[\]]+$`)

// Check returns what is wrong with patterns, for whoever wrote them.
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

// String returns the filter as the flags of an agent state it.
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
