package text

import "testing"

func TestTruncate(t *testing.T) {
	for _, c := range []struct {
		s    string
		n    int
		want string
	}{
		{"", 4, ""}, {"abcd", 4, "abcd"}, {"abcde", 4, "abcd…"}, {"日本", 6, "日本"}, {"日本語", 7, "日本…"}, {"日本語", 8, "日本…"},
	} {
		if got := Truncate(c.s, c.n); got != c.want {
			t.Errorf("%q to %d: %q, want %q", c.s, c.n, got, c.want)
		}
	}
}

func TestFirst(t *testing.T) {
	for n, want := range []string{"", "a", "a, b", "a, b and 1 more"} {
		if got := First([]string{"a", "b", "c"}[:n], 2); got != want {
			t.Errorf("the first two of %d: %q, want %q", n, got, want)
		}
	}
}
