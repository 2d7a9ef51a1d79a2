package connectivity

import (
	"slices"
	"strings"

	"github.com/clusterset/clusterset/cli/screen"
)

// Render returns the Report for a person.
func Render(r Report, colours bool) string {
	w := &screen.Writer{Colours: colours}
	var rows [][]screen.Cell
	for _, p := range r.Pairs {
		row := screen.T(p.From, p.To)
		for _, kind := range kinds {
			row = append(row, p.cell(kind))
		}
		rows = append(rows, append(row, screen.T(p.NotTried)...))
	}
	w.Table([]string{"FROM", "TO", "NAME", "CLUSTERSETIP", "HEADLESS", "OWN NAME", ""}, rows)
	for _, n := range r.Notes {
		w.Blank()
		w.Line(screen.Cell{Text: n, Colour: screen.Faint})
	}
	w.Blank()
	if len(r.Problems) == 0 {
		w.Line(screen.Cell{Text: "Every name and address works from every cluster.", Colour: screen.Good})
	}
	for _, p := range r.Problems {
		w.Line(screen.Cell{Text: "PROBLEM  ", Colour: screen.Bad}, screen.Cell{Text: p.Message})
		if p.Cure != "" {
			w.Line(screen.Cell{Text: "         → " + p.Cure})
		}
	}
	return w.String()
}

func (p *Pair) cell(kind Kind) screen.Cell {
	var works, fails []string
	for _, c := range p.Checks {
		switch {
		case c.Kind != kind:
		case c.Outcome == Works:
			works = append(works, c.Family)
		default:
			fails = append(fails, "no "+c.Family)
		}
	}
	all := slices.Concat(works, fails)
	switch {
	case p.NotTried != "":
		return screen.Cell{Text: "not tried", Colour: screen.Warn}
	case len(all) == 0:
		return screen.Cell{Text: "-", Colour: screen.Faint}
	case len(fails) > 0:
		return screen.Cell{Text: strings.Join(all, ", "), Colour: screen.Bad}
	}
	return screen.Cell{Text: strings.Join(all, ", "), Colour: screen.Good}
}
