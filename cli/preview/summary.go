package preview

import (
	"fmt"
	"slices"
	"strings"

	"github.com/clusterset/clusterset/cli/screen"
	"github.com/clusterset/clusterset/internal/policy"
)

// said are the effects in the summary's words, for one service and for several.
var said = []struct {
	effect    Effect
	one, many string
}{
	{Lost, "loses its last endpoint", "lose their last endpoint"},
	{LastResort, "is left to the last resort", "are left to the last resort"},
	{LeavesRegion, "leaves its region", "leave their region"},
	{LeavesZone, "leaves its zone", "leave their zone"},
	{Fewer, "falls on fewer endpoints", "fall on fewer endpoints"},
	{Conflicting, "comes into conflict", "come into conflict"},
	{Gained, "gains its first endpoint", "gain their first endpoint"},
}

// say writes the summary's text.
func (s *Summary) say(changes []Change) {
	var what []string
	for i := range changes {
		what = append(what, changes[i].String())
	}
	s.Text = fmt.Sprintf("%s: %s", strings.Join(what, "; "), s.counts())
}

func (s *Summary) counts() string {
	if s.Changed == 0 {
		return fmt.Sprintf("nothing changes for any of %s.", screen.Counted(s.Services, "service"))
	}
	text := fmt.Sprintf("%d of %s changes.", s.Changed, screen.Counted(s.Services, "service"))
	if s.Changed > 1 {
		text = fmt.Sprintf("%d of %d services change.", s.Changed, s.Services)
	}
	var parts []string
	for _, e := range said {
		switch n := s.Effects[e.effect]; n {
		case 0:
		case 1:
			parts = append(parts, "1 "+e.one)
		default:
			parts = append(parts, fmt.Sprintf("%d %s", n, e.many))
		}
	}
	if len(parts) == 0 {
		return text + " None gets worse."
	}
	return text + " In some place " + strings.Join(parts, ", ") + "."
}

// String returns the change in the syntax of its command.
func (c *Change) String() string {
	var all []string
	for _, clusters := range []struct {
		verb  string
		names []string
	}{{"down", c.Down}, {"drain", c.Drain}, {"undrain", c.Undrain}, {"leave", c.Leave}} {
		if len(clusters.names) > 0 {
			all = append(all, clusters.verb+" "+strings.Join(clusters.names, " "))
		}
	}
	if u := c.Unreachable; u != nil {
		text := "unreachable " + strings.Join(u.Clusters, " ")
		if len(u.From) > 0 {
			text += " from " + strings.Join(u.From, " ")
		}
		all = append(all, text)
	}
	if e := c.Export; e != nil {
		all = append(all, "export "+e.Service+" from "+e.From)
	}
	if e := c.Unexport; e != nil {
		all = append(all, "unexport "+e.Service+" from "+e.From)
	}
	if m := c.Place; m != nil {
		all = append(all, "place "+strings.Join(slices.DeleteFunc([]string{m.Cluster, strings.Join(m.Zones, ","), m.Region}, func(s string) bool { return s == "" }), " "))
	}
	if p := c.Policy; p != nil {
		stated, _ := policy.FromExport(&p.ServicePolicy, nil) // validated when it was applied
		all = append(all, strings.TrimSpace("policy "+p.Service+" "+stated.String()))
	}
	if m := c.Communities; m != nil {
		all = append(all, "communities "+m.Cluster+" "+strings.Join(m.To, ","))
	}
	if e := c.ExportTo; e != nil {
		text := "export-to " + e.Service + " " + strings.Join(e.To, ",")
		if e.From != "" {
			text += " from " + e.From
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}
