package doctor

import (
	"strings"

	"github.com/clusterset/clusterset/cli/screen"
)

// Render returns the Diagnosis for a person: problems first, each with its cure and where to read more.
func Render(d Diagnosis, colours bool) string {
	w := &screen.Writer{Colours: colours}
	marks := map[Level]screen.Cell{
		OK: {Text: "ok       ", Colour: screen.Good}, Skipped: {Text: "skipped  ", Colour: screen.Faint}, Problem: {Text: "PROBLEM  ", Colour: screen.Bad},
	}
	for _, f := range d.Findings {
		w.Line(marks[f.Level], screen.Cell{Text: f.Check + ": ", Colour: screen.Head}, screen.Cell{Text: f.Message})
		arrow := "         → "
		for line := range strings.Lines(f.Cure) {
			w.Line(screen.Cell{Text: arrow + strings.TrimSuffix(line, "\n")})
			arrow = "           "
		}
		if f.More != "" {
			w.Line(screen.Cell{Text: "           " + f.More, Colour: screen.Faint})
		}
	}
	return w.String()
}
