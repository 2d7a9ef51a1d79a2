package preview

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/clusterset/clusterset/cli/screen"
)

// say writes the summary's text: what is done, and what that changes.
func (s *Summary) say(changes []Change) {
	var what []string
	for i := range changes {
		what = append(what, changes[i].String())
	}
	text := cmp.Or(strings.Join(what, ", then "), "nothing") // which the console's previews begin with
	text = strings.ToUpper(text[:1]) + text[1:] + " changes "
	if s.Changed == 0 {
		s.Text = text + "none of " + screen.Counted(s.Services, "service") + "."
		return
	}
	text += fmt.Sprintf("%d of %s", s.Changed, screen.Counted(s.Services, "service"))
	var parts []string
	for _, e := range worst {
		switch n := s.Effects[e.effect]; {
		case n == 0 || e.one == "":
		case n == 1:
			parts = append(parts, "1 "+e.one)
		default:
			parts = append(parts, fmt.Sprintf("%d %s", n, e.many))
		}
	}
	rest := ", none for the worse."
	if len(parts) > 0 {
		rest = ": " + strings.Join(parts, ", ") + "."
	}
	s.Text = text + rest
}
