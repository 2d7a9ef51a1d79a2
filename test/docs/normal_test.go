package docs

import (
	"cmp"
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

// differs returns an error unless the output is what the page shows.
func (l *likeness) differs(shown, came string) error {
	try := l.clone()
	if !try.same(lines(shown), lines(came)) {
		return fmt.Errorf("the page shows\n%s\nand what came is\n%s", indented(shown), indented(came))
	}
	*l = *try
	return nil
}

func (l *likeness) same(want, got []string) bool {
	for i, line := range want {
		if line == elided {
			rest := want[i+1:]
			// What follows is the end of the output, or of the part before the next elision.
			for len(got) > 0 && (len(rest) == 0 || !l.line(rest[0], got[0])) {
				got = got[1:]
			}
			continue
		}
		if len(got) == 0 || !l.line(line, got[0]) {
			return false
		}
		got = got[1:]
	}
	return len(got) == 0
}

func (l *likeness) line(want, got string) bool {
	w, shown := normal(want)
	g, came := normal(got)
	if w != g {
		return false
	}
	try := l.clone()
	for i := range shown {
		if cmp.Or(try.came[shown[i]], came[i]) != came[i] || cmp.Or(try.shown[came[i]], shown[i]) != shown[i] {
			return false
		}
		try.came[shown[i]], try.shown[came[i]] = came[i], shown[i]
	}
	*l = *try
	return true
}

func (l *likeness) clone() *likeness { return &likeness{maps.Clone(l.came), maps.Clone(l.shown)} }

// lines returns the lines that aren't blank.
func lines(s string) []string {
	return slices.DeleteFunc(strings.Split(s, "\n"), func(line string) bool { return strings.TrimSpace(line) == "" })
}

func indented(s string) string {
	return "    " + strings.ReplaceAll(strings.TrimRight(s, "\n"), "\n", "\n    ")
}

func TestLikeness(t *testing.T) {
	for _, c := range []struct {
		shown, came string
		same        bool
	}{
		{"beijing Ready 3s 2026-01-02\nweb 10.96.0.7", "beijing  Ready  1m12s 2031-12-31\nweb 10.101.3.4", true},
		{"web 10.96.0.7\nweb 10.96.0.7", "web 10.101.3.4\nweb 10.101.3.5\n", false},
		{"web 10.96.0.7\nweb 10.96.0.8", "web 10.101.3.4\nweb 10.101.3.4\n", false},
		{"a\n...\nd", "a\nb\nc\nd", true},
		{"a\n...", "b\nc", false},
		{"a", "a\nb", false},
		{"a\nb", "a", false},
	} {
		if err := newLikeness().differs(c.shown, c.came); (err == nil) != c.same {
			t.Errorf("%q and %q: %v", c.shown, c.came, err)
		}
	}
}
