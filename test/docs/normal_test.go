package docs

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// likeness compares what a page shows with the actual output. Addresses may differ, but over the whole page each address that the
// page shows must correspond to the same actual address, and vice versa.
type likeness struct {
	came  map[string]string // actual address, by the one on the page
	shown map[string]string // address on the page, by the actual one
}

func newLikeness() *likeness {
	return &likeness{came: map[string]string{}, shown: map[string]string{}}
}

var (
	urlRE     = regexp.MustCompile(`https?://[^\s/,;]+`)
	addressRE = regexp.MustCompile(`\b\d+\.\d+\.\d+\.\d+\b`)
	// Formats that differ between runs. They are applied in this order.
	variable = []struct {
		re *regexp.Regexp
		as string
	}{
		{regexp.MustCompile(`\d{4}-\d\d-\d\d([ T]\d\d:\d\d:\d\dZ?)?`), "DATE"},
		{regexp.MustCompile(`[A-Z][a-z]{2} [A-Z][a-z]{2} +\d+ \d\d:\d\d:\d\d \d{4}`), "DATE"},
		{regexp.MustCompile(`derived-[a-z0-9]{6,}`), "derived-HASH"},
		{regexp.MustCompile(`v\d+\.\d+\.\d+[-+.\w]*|\bdev\b|\(devel\)`), "VERSION"},
		{regexp.MustCompile(`\b(\d+(\.\d+)?(ms|µs|s|m|h|d))+\b`), "TIME"},
		{regexp.MustCompile(`\b\d+ (days|hours|minutes)\b`), "TIME"},
	}
)

// normal replaces what differs between runs in a line, and addresses with ADDRESS. It returns the line and the addresses.
func normal(line string) (string, []string) {
	line = urlRE.ReplaceAllString(line, "URL")
	addresses := addressRE.FindAllString(line, -1)
	line = addressRE.ReplaceAllString(line, "ADDRESS")
	for _, v := range variable {
		line = v.re.ReplaceAllString(line, v.as)
	}
	return strings.Join(strings.Fields(line), " "), addresses
}

// elided is a line on a page that stands for any number of lines.
const elided = "..."

// differs returns an error unless the output is what the page shows. anyOrder is for answers whose order is random.
func (l *likeness) differs(shown, came string, anyOrder bool) error {
	try := l.clone()
	if !try.same(lines(shown), lines(came), anyOrder) {
		return fmt.Errorf("the page shows\n%s\nand what came is\n%s", indented(shown), indented(came))
	}
	*l = *try
	return nil
}

func (l *likeness) same(want, got []string, anyOrder bool) bool {
	if len(want) == 0 {
		return len(got) == 0
	}
	if want[0] == elided {
		for i := range len(got) + 1 {
			if try := l.clone(); try.same(want[1:], got[i:], anyOrder) {
				*l = *try
				return true
			}
		}
		return false
	}
	for i := range got {
		if i > 0 && !anyOrder {
			break
		}
		try := l.clone()
		if try.line(want[0], got[i]) && try.same(want[1:], slices.Delete(slices.Clone(got), i, i+1), anyOrder) {
			*l = *try
			return true
		}
	}
	return false
}

func (l *likeness) line(want, got string) bool {
	w, shown := normal(want)
	g, came := normal(got)
	if w != g || len(shown) != len(came) {
		return false
	}
	for i := range shown {
		if was, ok := l.came[shown[i]]; ok && was != came[i] {
			return false
		}
		if was, ok := l.shown[came[i]]; ok && was != shown[i] {
			return false
		}
		l.came[shown[i]], l.shown[came[i]] = came[i], shown[i]
	}
	return true
}

func (l *likeness) clone() *likeness { return &likeness{maps.Clone(l.came), maps.Clone(l.shown)} }

// lines returns the lines that aren't blank.
func lines(s string) []string {
	var all []string
	for line := range strings.Lines(s) {
		if line = strings.TrimSpace(line); line != "" {
			all = append(all, line)
		}
	}
	return all
}

func indented(s string) string {
	return "    " + strings.ReplaceAll(strings.TrimRight(s, "\n"), "\n", "\n    ")
}

func TestLikeness(t *testing.T) {
	for _, c := range []struct {
		shown, came string
		anyOrder    bool
		same        bool
	}{
		{"web  10.96.0.7\n", "web 10.101.3.4\n", false, true},
		{"web 10.96.0.7\nweb 10.96.0.7", "web 10.101.3.4\nweb 10.101.3.5\n", false, false},
		{"web 10.96.0.7\nweb 10.96.0.8", "web 10.101.3.4\nweb 10.101.3.4\n", false, false},
		{"10.96.0.7\n10.96.0.8", "10.1.0.2\n10.1.0.1", true, true},
		{"a\n...\nd", "a\nb\nc\nd", false, true},
		{"a\n...", "b\nc", false, false},
		{"beijing Ready 3s 2026-01-02", "beijing  Ready  1m12s 2031-12-31", false, true},
		{"beijing Ready 3s", "beijing Suspect 3s", false, false},
		{"Hub https://192.0.2.10:6443 reachable (12ms)", "Hub https://127.0.0.1:40123 reachable (3ms)", false, true},
		{"a", "a\nb", false, false},
		{"a\nb", "a", false, false},
	} {
		if err := newLikeness().differs(c.shown, c.came, c.anyOrder); (err == nil) != c.same {
			t.Errorf("%q and %q: %v", c.shown, c.came, err)
		}
	}
}
