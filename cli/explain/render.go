package explain

import (
	"fmt"
	"strings"

	"github.com/clusterset/clusterset/cli/place"
	"github.com/clusterset/clusterset/cli/screen"
)

// Screen is how an Explanation is shown. Wide shows each endpoint on its own line.
type Screen screen.Style

// Render returns the Explanation as text for people.
func (s Screen) Render(e *Explanation) string {
	w := &screen.Writer{Colours: s.Colours}
	w.Line(label("Name"), screen.Cell{Text: e.Name})
	if len(e.Prefer) > 0 { // else it is a Service's own name, which leads to the same endpoints from everywhere
		w.Line(label("Asked from"), screen.Cell{Text: asked(e.From)})
		w.Line(label("Tiers"), screen.Cell{Text: tiersOf(e)})
	}
	if e.Stated != "" {
		w.Line(label("Policy"), screen.Cell{Text: e.Stated + ", set by the service; the rest by the server"})
	}
	w.Line(label("Answer"), answer(e))
	w.Line(label("From"), screen.Cell{Text: e.Source})
	w.Line(label("Because"), screen.Cell{Text: e.Because})
	if len(e.Endpoints) > 0 {
		w.Blank()
		s.endpoints(w, e.Endpoints)
	}
	if len(e.Networks) > 0 {
		w.Blank()
	}
	for _, a := range e.Networks {
		w.Line(screen.Cell{Text: "Network: ", Colour: screen.Head}, screen.Cell{Text: a.Message})
		if a.Cure != "" {
			w.Line(screen.Cell{Text: "  → " + a.Cure, Colour: screen.Faint})
		}
	}
	if len(e.Conflicts)+len(e.Notes) > 0 {
		w.Blank()
	}
	for _, c := range e.Conflicts {
		w.Line(screen.Cell{Text: "Conflict: ", Colour: screen.Warn}, screen.Cell{Text: c})
	}
	for _, n := range e.Notes {
		w.Line(screen.Cell{Text: "Note: ", Colour: screen.Warn}, screen.Cell{Text: n})
	}
	return w.String()
}

func tiersOf(e *Explanation) string {
	order := strings.Join(e.Prefer, ", then ")
	if e.Boundary != "" {
		order += "; never outside its own " + e.Boundary
	}
	if e.MinReady > 1 {
		order += fmt.Sprintf("; a tier with fewer than %d ready endpoints is joined with the next", e.MinReady)
	}
	return order
}

func label(s string) screen.Cell {
	return screen.Cell{Text: s + strings.Repeat(" ", 12-len(s)), Colour: screen.Head}
}

func answer(e *Explanation) screen.Cell {
	switch {
	case e.Result == Answer && len(e.Addresses) == 0:
		return screen.Cell{Text: "a ClusterSetIP that isn't known here", Colour: screen.Warn}
	case e.Result == Answer && e.Degraded:
		return screen.Cell{Text: strings.Join(e.Addresses, " "), Colour: screen.Warn}
	case e.Result == Answer:
		return screen.Cell{Text: strings.Join(e.Addresses, " "), Colour: screen.Good}
	}
	return screen.Cell{Text: string(e.Result), Colour: screen.Bad}
}

func asked(p place.Place) string {
	if p == (place.Place{}) {
		return "unknown: no cluster, zone or region is given (--from), so nothing is near"
	}
	parts := []string{"cluster " + screen.Or(p.Cluster), "zone " + screen.Or(p.Zone), "region " + screen.Or(p.Region)}
	return strings.Join(parts, ", ")
}

// row stands for endpoints that differ only in their addresses.
type row struct {
	place.Place
	tier, reason string
	used         bool
	number       int // distinguishes rows that must not be merged
}

// endpoints writes the table of endpoints, with similar ones in one row.
func (s Screen) endpoints(w *screen.Writer, all []Endpoint) {
	var rows []row
	addresses := map[row][]string{}
	for i, e := range all {
		r := row{Place: e.Place, tier: e.Tier, reason: e.Reason, used: e.Used}
		if s.Wide {
			r.number = i
		}
		if addresses[r] == nil {
			rows = append(rows, r)
		}
		text := e.Address
		if e.Hostname != "" && s.Wide {
			text += " (" + e.Hostname + ")"
		}
		addresses[r] = append(addresses[r], text)
	}
	head := []string{"", "CLUSTER", "ZONE", "REGION", "TIER", "ADDRESSES", "WHY"}
	cells := make([][]screen.Cell, len(rows))
	for i, r := range rows {
		mark, colour := "+", screen.Good
		if !r.used {
			mark, colour = "-", screen.Faint
		}
		cells[i] = screen.T(mark, screen.Or(r.Cluster), screen.Or(r.Zone), screen.Or(r.Region), screen.Or(r.tier), screen.Several(addresses[r], 3, " "), r.reason)
		cells[i][0].Colour, cells[i][6].Colour = colour, colour
	}
	w.Table(head, cells)
}
