package screen

import (
	"strings"
	"testing"
	"time"
)

func TestAge(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second:                    "0s",
		0:                               "0s",
		4*time.Second + 999_000_000:     "4s",
		90 * time.Second:                "1m30s",
		10 * time.Minute:                "10m",
		90*time.Minute + 59*time.Second: "1h30m",
		3*time.Hour + time.Minute:       "3h",
		30 * time.Hour:                  "30h",
		50 * time.Hour:                  "2d",
		400 * 24 * time.Hour:            "400d",
	} {
		if got := Age(d); got != want {
			t.Errorf("Age(%s) = %q, want %q", d, got, want)
		}
	}
}

func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"payments/api":                "payments/api",
		"华北 né":                       "华北 né",
		"two\nlines\tand":             "two lines and",
		"\x1b[31mred\x7f\u009b1m":     "[31mred1m",
		"no \u202egnp.exe\u202c":      "no gnp.exe",
		"\u2066a\u2069 be\u200bijing": "a beijing",
		"\ufeffa\u200d":               "a",
	} {
		if got := Printable(in); got != want {
			t.Errorf("Printable(%q) = %q, want %q", in, got, want)
		}
	}
}

// Colours don't change the positions of columns.
func TestColumnsStandAlikeInColours(t *testing.T) {
	render := func(colours bool) string {
		w := &Writer{Colours: colours}
		w.Table([]string{"A", "B"}, [][]Cell{{{Text: "日本", Colour: Good}, {Text: "x"}}, {{Text: "a\x1b[1m"}, {Text: "yy", Colour: Bad}}})
		return w.String()
	}
	plain := render(false)
	if want := "A      B\n日本     x\na[1m   yy\n"; strings.ReplaceAll(plain, " ", "") != strings.ReplaceAll(want, " ", "") {
		t.Errorf("got %q", plain)
	}
	stripped := render(true)
	for _, c := range []Colour{Good, Bad, Head} {
		stripped = strings.ReplaceAll(stripped, "\x1b["+string(c)+"m", "")
	}
	if stripped = strings.ReplaceAll(stripped, "\x1b[0m", ""); stripped != plain {
		t.Errorf("got %q, without colours %q", stripped, plain)
	}
}
