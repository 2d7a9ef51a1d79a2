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
	s.Text = strings.ToUpper(text[:1]) + text[1:] + " " + s.counts()
}

func (s *Summary) counts() string {
	if s.Changed == 0 {
		return fmt.Sprintf("changes none of %s.", screen.Counted(s.Services, "service"))
	}
	text := fmt.Sprintf("changes %d of %s", s.Changed, screen.Counted(s.Services, "service"))
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
	if len(parts) == 0 {
		return text + ", none for the worse."
	}
	return text + ": " + strings.Join(parts, ", ") + "."
}
