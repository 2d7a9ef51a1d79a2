// Command recording draws the drain of docs/demo.md as an animated SVG: a terminal in which the page's commands are typed, and print what
// they do there. It reads the page and writes the picture; `make generate` runs it.
package main

import (
	"fmt"
	"html"
	"io"
	"log"
	"os"
	"regexp"
	"strings"
)

const asks = "dig @127.0.0.1 -p 5301 db.shop.svc.clusterset.local "

// scenes are comments for the viewer, each with the beginning of the page's next command that is shown.
var scenes = []struct{ comment, command string }{
	{"A client in xicheng. Of shijiazhuang's database (10.2.…) and minhang's (10.3.…), the nearer one answers.", asks},
	{"shijiazhuang needs maintenance: drain it.", "bin/clusterset drain shijiazhuang "},
	{"Its endpoints now come last, so the name leads to minhang.", asks},
	{"The work is done.", "bin/clusterset undrain shijiazhuang "},
	{"And the name leads to the nearer one again.", asks},
}

// Seconds, characters, and pixels. A character of a monospaced font is about 0.6 em wide.
const (
	reading, typing, waiting, ending = 1.4, 1.2, 0.3, 4
	columns                          = 106
	fontSize, rowHeight, margin      = 13, 19, 16
	width                            = columns*fontSize*3/5 + 2*margin
)

const style = `text{white-space:pre;fill:#1f2328;animation:%.1fs infinite}
rect{fill:#f6f8fa;stroke:#d1d9e0}.comment{fill:#59636e}.command{fill:#0550ae}
@media (prefers-color-scheme:dark){text{fill:#f0f6fc}rect{fill:#0d1117;stroke:#3d444d}.comment{fill:#9198a1}.command{fill:#79c0ff}}
@media (prefers-reduced-motion:reduce){text{animation:none!important}}
`

// row is a line of the terminal. It appears at a time, in seconds, and is typed until another.
type row struct {
	class, text string
	from, until float64
}

func main() {
	page, err := io.ReadAll(os.Stdin)
	if err != nil {
		log.Fatal(err)
	}
	rows, length := play(string(page))
	var styles, texts strings.Builder
	fmt.Fprintf(&styles, style, length)
	for i, r := range rows {
		// Each row's animation is as long as the loop, so that all vanish together when it begins again.
		fmt.Fprintf(&styles, "#r%d{animation-name:r%d}@keyframes r%d{0%%,%.2f%%{clip-path:inset(0 100%% 0 0);"+
			"animation-timing-function:steps(%d)}%.2f%%,100%%{clip-path:inset(0)}}\n",
			i, i, i, 100*r.from/length, max(1, len(r.text)), 100*r.until/length+0.01)
		fmt.Fprintf(&texts, "<text id=\"r%d\" class=%q x=\"%d\" y=\"%d\" xml:space=\"preserve\">%s</text>\n",
			i, r.class, margin, margin+i*rowHeight+fontSize, html.EscapeString(r.text))
	}
	height := len(rows)*rowHeight + 2*margin
	fmt.Printf(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-size="%d"
  font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono','Liberation Mono',monospace">
<title>A cluster is drained</title>
<style>
%s</style>
<rect x="0.5" y="0.5" width="%d" height="%d" rx="8"/>
%s</svg>
`, width, height, width, height, fontSize, styles.String(), width-1, height-1, texts.String())
}

// endRE is where a command's output ends.
var endRE = regexp.MustCompile("(?m)^(\\$ |```$)")

// play returns the terminal's lines, and how long it takes to see them.
func play(page string) (rows []row, now float64) {
	for _, scene := range scenes {
		_, after, _ := strings.Cut(page, "\n$ "+scene.command)
		end := endRE.FindStringIndex(after)
		if end == nil {
			log.Fatalf("the page has no more %q", scene.command)
		}
		arguments, output, _ := strings.Cut(after[:end[0]], "\n")
		page = "\n" + after[end[0]:]
		from := now + reading
		rows = append(rows, row{"comment", "# " + scene.comment, now, now}, row{"command", "$ " + scene.command + arguments, from, from + typing})
		now = from + typing + waiting
		for line := range strings.Lines(strings.ReplaceAll(output, "\t", "   ")) {
			for len(line) > columns {
				at := strings.LastIndex(line[:columns], " ")
				rows, line = append(rows, row{"output", line[:at], now, now}), line[at+1:]
			}
			rows = append(rows, row{"output", strings.TrimSuffix(line, "\n"), now, now})
		}
		rows = append(rows, row{"output", "", now, now})
		now += reading
	}
	return rows[:len(rows)-1], now + ending
}
