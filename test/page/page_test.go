package page

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestFreshWritesWhatItThenAccepts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.md")
	t.Setenv("UPDATE", "1")
	Fresh(t, path, "a\nb\n")
	if err := os.Unsetenv("UPDATE"); err != nil {
		t.Fatal(err)
	}
	Fresh(t, path, "a\nb\n")
}

func TestMissingNamesTheLinesThatDiffer(t *testing.T) {
	if got := missing("a\nb\nc\n", "a\nc\nd\n"); !slices.Equal(got, []string{"b\n"}) {
		t.Errorf("got %q", got)
	}
}
