package view

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/screen"
	"github.com/clusterset/clusterset/internal/communities"
)

// Screen is how a Report is shown. Wide shows every column and every problem.
type Screen screen.Style

// shown is how many problems, and others that need attention, are shown unless Wide, so that a Report fits on one screen.
const shown = 8

// Render returns the Report for a person.
func (s Screen) Render(r Report) string {
	w := &screen.Writer{Colours: s.Colours}
	s.hub(w, r)
	w.Blank()
	s.clusters(w, r)
	w.Blank()
	s.services(w, r.Services)
	if r.traffic != nil {
		s.traffic(w, r.traffic)
	}
	s.problems(w, r.All())
	for _, note := range r.Notes {
		w.Line(screen.Cell{Text: "Note: ", Colour: screen.Warn}, screen.Cell{Text: note})
	}
	return w.String()
}

func (s Screen) hub(w *screen.Writer, r Report) {
	h := r.Hub
	at := strings.TrimPrefix(h.Server+" ", " ")
	state := map[HubState]screen.Cell{
		HubReachable:   {Text: fmt.Sprintf("reachable (%dms)", h.LatencyMillis), Colour: screen.Good},
		HubUnreachable: {Text: "can't be read", Colour: screen.Bad},
		HubHeard:       {Text: "answers the agent; --hub-kubeconfig asks it", Colour: screen.Good},
		HubQuiet:       {Text: h.quiet, Colour: screen.Bad},
		HubUnknown:     {Text: "unknown; ask it with --hub-kubeconfig"},
	}[h.State]
	w.Line(screen.Cell{Text: "Hub       ", Colour: screen.Head}, screen.Cell{Text: at}, state)
	if r.Cluster != "" {
		w.Line(screen.Cell{Text: "Cluster   ", Colour: screen.Head}, screen.Cell{Text: r.Cluster})
	}
	if s.Wide && r.Steered != "" {
		w.Line(screen.Cell{Text: "Steered   ", Colour: screen.Head}, screen.Cell{Text: r.Steered})
	}
}

func (s Screen) clusters(w *screen.Writer, r Report) {
	if len(r.Clusters) == 0 {
		w.Line(screen.Cell{Text: "No clusters: clusterset join makes one a member."})
		return
	}
	head := []string{"CLUSTER", "PHASE", "ZONE", "REGION", "HEARTBEAT", "EXPORTS"}
	has := func(what func(Cluster) bool) bool { return slices.ContainsFunc(r.Clusters, what) }
	networks := has(func(c Cluster) bool { return c.Network != "" })
	if networks {
		head = append(head, "NETWORK")
	}
	named := has(func(c Cluster) bool { return len(c.Communities) > 0 })
	if named {
		head = append(head, "COMMUNITIES")
	}
	measured := has(func(c Cluster) bool { return c.Reach != nil && c.Reach.Reachable != metav1.ConditionUnknown })
	if measured {
		head = append(head, "REACHED IN")
	}
	if s.Wide {
		head = append(head, "AGENT", "MESSAGE")
	}
	rows := make([][]screen.Cell, len(r.Clusters))
	for i := range r.Clusters {
		c := &r.Clusters[i]
		name, heartbeat, exports := c.Name, "never", "-"
		if c.Phase == string(clustersetv1alpha1.MemberReady) {
			heartbeat = "-" // it has one
		}
		if c.Local {
			name += " *"
		}
		if c.LastHeartbeat != nil {
			heartbeat = screen.Age(r.Time.Sub(*c.LastHeartbeat))
		}
		if c.Exports != nil {
			exports = strconv.Itoa(*c.Exports)
		}
		rows[i] = screen.T(name, "", screen.Or(screen.Style(s).Several(c.Zones, 2)), screen.Or(c.Region), heartbeat, exports)
		rows[i][1] = phase(c)
		if networks {
			rows[i] = append(rows[i], screen.Cell{Text: screen.Or(c.Network)})
		}
		if named {
			rows[i] = append(rows[i], screen.Cell{Text: cmp.Or(screen.Style(s).Several(c.Communities, 3), communities.Default)})
		}
		if measured {
			rows[i] = append(rows[i], reached(c, r.Time))
		}
		if s.Wide {
			rows[i] = append(rows[i], screen.T(screen.Or(c.AgentVersion), c.Message)...)
		}
	}
	w.Table(head, rows)
	if r.Hub.State != HubReachable && slices.ContainsFunc(rows, func(row []screen.Cell) bool { return row[4].Text == "-" }) {
		w.Line(screen.Cell{Text: "The hub alone knows the heartbeats of clusters that are Ready: --hub-kubeconfig or --hub-context shows them.", Colour: screen.Faint})
	}
}

func phase(c *Cluster) screen.Cell {
	cell := screen.Cell{Text: c.Phase, Colour: map[string]screen.Colour{"Ready": screen.Good, "Suspect": screen.Warn, "Expired": screen.Bad}[c.Phase]}
	if c.Drain {
		cell.Text += ", drained"
		if cell.Colour == screen.Good {
			cell.Colour = screen.Warn
		}
	}
	for _, f := range flaws {
		if slices.Contains(c.Flaws, f.reason) {
			cell.Text, cell.Colour = cell.Text+", "+f.words, screen.Bad
		}
	}
	return cell
}

func (s Screen) services(w *screen.Writer, v Services) {
	var counts []string
	if v.Imported != nil {
		counts = append(counts, fmt.Sprintf("%d imported, %d exported from here", *v.Imported, *v.Exported))
	}
	if v.Extended > 0 {
		counts = append(counts, fmt.Sprintf("%d extended", v.Extended))
	}
	if n := len(v.LastResort); n > 0 {
		counts = append(counts, fmt.Sprintf("%d at the last resort", n))
	}
	counts = append(counts, screen.Counted(len(v.Conflicts), "conflict"))
	w.Line(screen.Cell{Text: "Services  ", Colour: screen.Head}, screen.Cell{Text: strings.Join(counts, ", ")})
	var rows [][]screen.Cell
	for _, p := range slices.Concat(v.LastResort, v.Conflicts) {
		rows = append(rows, []screen.Cell{{Text: "  " + p.About()}, {Text: p.What}, {Text: p.Reason, Colour: screen.Warn}, {Text: p.Message, Colour: screen.Faint}})
	}
	w.Rows(rows[:s.fit(len(rows))])
	s.more(w, len(rows))
}

func (s Screen) problems(w *screen.Writer, all []Problem) {
	if len(all) == 0 {
		w.Line(screen.Cell{Text: "Problems  ", Colour: screen.Head}, screen.Cell{Text: "none", Colour: screen.Good})
		return
	}
	w.Blank()
	w.Line(screen.Cell{Text: "Problems  ", Colour: screen.Head}, screen.Cell{Text: strconv.Itoa(len(all)), Colour: screen.Bad})
	for _, p := range all[:s.fit(len(all))] {
		w.Line(screen.Cell{Text: "  " + p.What + " " + p.About() + " "}, screen.Cell{Text: p.Reason, Colour: screen.Bad}, screen.Cell{Text: ": " + p.Message})
		w.Line(screen.Cell{Text: "    → " + p.Cure, Colour: screen.Faint})
	}
	s.more(w, len(all))
}

func (s Screen) fit(n int) int {
	if s.Wide {
		return n
	}
	return min(n, shown)
}

func (s Screen) more(w *screen.Writer, n int) {
	if left := n - s.fit(n); left > 0 {
		w.Line(screen.Cell{Text: fmt.Sprintf("  and %d more: -o wide shows all", left), Colour: screen.Faint})
	}
}
