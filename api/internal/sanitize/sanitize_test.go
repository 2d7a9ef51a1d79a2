package sanitize

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestPrintableCutsBetweenCharacters(t *testing.T) {
	if got := Printable(strings.Repeat("a", 80)); len(got) != 80 {
		t.Errorf("a short value was cut to %q", got)
	}
	for lead := range 4 {
		got := Printable(strings.Repeat("a", lead) + strings.Repeat("北", 100))
		if !utf8.ValidString(got) || len(got) > 80+len("…") || !strings.HasSuffix(got, "…") {
			t.Errorf("cut to %q", got)
		}
	}
	// Text that isn't UTF-8 has no position to cut at. It must not cause a panic.
	if got := Printable(strings.Repeat("\x80", 100)); got != "…" {
		t.Errorf("cut to %q", got)
	}
}
