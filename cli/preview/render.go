package preview

import (
	"fmt"
	"slices"
	"strings"

	"github.com/clusterset/clusterset/cli/screen"
)

// Screen is how a Result is shown. Wide shows every row, and all places and clusters in it.
type Screen screen.Style

// shownRows and shownWords limit a Result to one screen.
const shownRows, shownWords = 20, 3

// Render returns the Result as text for people.
func (s Screen) Render(r *Result) string {
	w := &screen.Writer{Colours: s.Colours}
	colour := screen.Good
	if r.Summary.Changed > 0 {
		colour = screen.Warn
	}
	if r.Loses() {
		colour = screen.Bad
	}
	w.Line(screen.Cell{Text: r.Summary.Text, Colour: colour})
	var rows [][]screen.Cell
	for i := range r.Services {
		rows = append(rows, s.rows(&r.Services[i])...)
	}
	more := 0
	if !s.Wide && len(rows) > shownRows+1 {
		more, rows = len(rows)-shownRows, rows[:shownRows]
	}
	if len(rows) > 0 {
		w.Blank()
		w.Table([]string{"EFFECT", "SERVICE", "FROM", "BY", "BEFORE", "AFTER"}, rows)
	}
	if more > 0 {
		w.Line(screen.Cell{Text: fmt.Sprintf("and %d more: -o wide shows all", more), Colour: screen.Faint})
	}
	var conflicts, notes [][]screen.Cell
	for _, svc := range r.Services {
		for _, c := range svc.Conflicts {
			head := screen.Cell{Text: "Conflict in " + svc.Key().String() + ": ", Colour: screen.Warn}
			if c.Ends {
				head = screen.Cell{Text: "No conflict any more in " + svc.Key().String() + ": ", Colour: screen.Good}
			}
			conflicts = append(conflicts, []screen.Cell{head, {Text: c.Message}})
		}
	}
	if !s.Wide {
		conflicts = conflicts[:min(len(conflicts), shownRows)]
	}
	for _, n := range r.Notes {
		notes = append(notes, []screen.Cell{{Text: "Note: ", Colour: screen.Warn}, {Text: n}})
	}
	for _, block := range [][][]screen.Cell{conflicts, notes} {
		if len(block) > 0 {
			w.Blank()
		}
		for _, line := range block {
			w.Line(line...)
		}
	}
	return w.String()
}

// way is one of a cell's Answers, before and after.
type way struct {
	by            string
	before, after *Answer
	effects       []Effect
}

func (c *Cell) ways() []way {
	return []way{
		{"clusterset.local", &c.Before.DNS, &c.After.DNS, c.Effects.DNS},
		{"svc.global", &c.Before.Global, &c.After.Global, c.Effects.Global},
		{"ClusterSetIP", c.Before.ClusterSetIP, c.After.ClusterSetIP, c.Effects.ClusterSetIP},
	}
}

// rows returns the rows of a service: one for each cell and each set of Answers that change alike.
func (s Screen) rows(svc *Service) (rows [][]screen.Cell) {
	for i := range svc.Cells {
		c := &svc.Cells[i]
		var places []string
		for _, p := range c.Places {
			places = append(places, p.String())
		}
		slices.Sort(places)
		first := len(rows)
		for _, v := range c.ways() {
			if len(v.effects) == 0 {
				continue
			}
			row := screen.T(words(v.effects), svc.Namespace+"/"+svc.Name, screen.Style(s).Several(places, shownWords), v.by, s.answer(v.before), s.answer(v.after))
			row[0].Colour = worst[v.effects[0].severity()].colour
			alike := slices.IndexFunc(rows[first:], func(r []screen.Cell) bool { return r[0] == row[0] && r[4] == row[4] && r[5] == row[5] })
			if alike >= 0 {
				rows[first+alike][3].Text += ", " + v.by
				continue
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// answer returns the clusters in use, each with its number of ready endpoints.
func (s Screen) answer(a *Answer) string {
	switch {
	case a == nil:
		return "none"
	case a.ByClusterSetIP:
		return "the ClusterSetIP"
	case len(a.Clusters) == 0 && len(a.Ports) == 0 && a.Result != NoError:
		return string(a.Result)
	}
	var all []string
	for _, c := range a.Clusters {
		text := fmt.Sprintf("%s %d", c.Cluster, c.Ready)
		if c.Down {
			text = c.Cluster + " (down)"
		}
		all = append(all, text)
	}
	text := screen.Style(s).Several(all, shownWords)
	if len(a.Clusters) > 1 {
		text += fmt.Sprintf(" = %d", a.Ready)
	}
	if a.Degraded {
		return text + ", last resort"
	}
	return text + tiers[a.Tier]
}

// tiers says how near the endpoints in use are, if the tier shows that.
var tiers = map[string]string{"cluster": " (cluster)", "zone": " (zone)", "region": " (region)"}

func words(effects []Effect) string {
	var all []string
	for _, e := range effects {
		all = append(all, strings.ReplaceAll(string(e), "-", " "))
	}
	return strings.Join(all, ", ")
}
