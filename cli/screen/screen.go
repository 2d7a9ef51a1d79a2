// Package screen lays out text for terminals: columns and, if the terminal shows them, colours.
package screen

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Colour is how a cell stands out.
type Colour string

// The colours, named for what they mean.
const (
	Plain Colour = ""
	Good  Colour = "32"
	Warn  Colour = "33"
	Bad   Colour = "31"
	Faint Colour = "2"
	Head  Colour = "1"
)

// Cell is a text in a colour.
type Cell struct {
	Text   string
	Colour Colour
}

// T returns plain cells.
func T(texts ...string) []Cell {
	cells := make([]Cell, len(texts))
	for i, s := range texts {
		cells[i].Text = s
	}
	return cells
}

// Writer builds a screen.
type Writer struct {
	b strings.Builder
	// Colours enables colours, for terminals.
	Colours bool
}

// String returns the text written so far.
func (w *Writer) String() string { return w.b.String() }

// Line writes cells one after another, and ends the line.
func (w *Writer) Line(cells ...Cell) {
	var line strings.Builder
	for _, c := range cells {
		line.WriteString(w.paint(c))
	}
	w.b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
}

// Blank writes an empty line.
func (w *Writer) Blank() { w.b.WriteByte('\n') }

// Table writes a head and rows in columns, each as wide as its widest cell.
func (w *Writer) Table(head []string, rows [][]Cell) {
	cells := T(head...)
	for i := range cells {
		cells[i].Colour = Head
	}
	w.Rows(append([][]Cell{cells}, rows...))
}

// Rows writes columns without a head.
func (w *Writer) Rows(rows [][]Cell) {
	var widths []int
	for _, row := range rows {
		for i := range row {
			row[i].Text = Printable(row[i].Text)
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i].Text))
		}
	}
	for _, row := range rows {
		var line []Cell
		for i, c := range row {
			if i > 0 {
				line = append(line, Cell{Text: "  "})
			}
			// The padding stays outside of the colour: an escape has no width on the screen.
			line = append(line, c)
			if i < len(row)-1 {
				line = append(line, Cell{Text: strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c.Text))})
			}
		}
		w.Line(line...)
	}
}

func (w *Writer) paint(c Cell) string {
	text := Printable(c.Text)
	if !w.Colours || c.Colour == Plain || text == "" {
		return text
	}
	return "\x1b[" + string(c.Colour) + "m" + text + "\x1b[0m"
}

// Printable removes control and format characters: object names and messages come from other clusters. A terminal would execute an escape
// sequence in them, and show text in another order after an override of its direction.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case unicode.In(r, unicode.Cc, unicode.Cf):
			return -1
		}
		return r
	}, s)
}

// Or returns s, or a dash for an empty one, so that a column is never blank.
func Or(s string) string { return cmp.Or(s, "-") }

// Age is a time span in the one or two units that matter: 4s, 1m30s, 12m, 3h, 2d.
func Age(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < 10*time.Minute:
		return d.Truncate(time.Second).String()
	case d < 2*time.Hour:
		return strings.TrimSuffix(d.Truncate(time.Minute).String(), "0s")
	case d < 48*time.Hour:
		return strings.TrimSuffix(d.Truncate(time.Hour).String(), "0m0s")
	}
	return strconv.Itoa(int(d/(24*time.Hour))) + "d"
}

// Counted is a number and its noun: 1 service, 2 services.
func Counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Style is how a command shows its result.
type Style struct {
	Wide    bool // shows all there is, not what fits one screen
	Colours bool // for terminals
}

// Several lists words, all of them if Wide.
func (s Style) Several(words []string, n int) string {
	if s.Wide {
		n = len(words)
	}
	return Several(words, n, ", ")
}

// And lists words: a, b and c.
func And(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}

// Several joins words. If there are more than n and one, it shows the first n.
func Several(words []string, n int, separator string) string {
	if len(words) > n+1 {
		return fmt.Sprintf("%s and %d more", strings.Join(words[:n], separator), len(words)-n)
	}
	return strings.Join(words, separator)
}
