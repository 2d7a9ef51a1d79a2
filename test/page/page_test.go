package page

import (
	"os"
	"path/filepath"
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

// witness records whether a test would have failed.
type witness struct {
	testing.TB
	failed bool
}

func (w *witness) Errorf(string, ...any) { w.failed = true }

func TestFreshFailsForAnyDifference(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(path, []byte("a\nb\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("UPDATE", "")
	for _, text := range []string{"a\n", "a\nb\nb\n", "b\na\n", "a\nb"} {
		w := &witness{TB: t}
		Fresh(w, path, text)
		if !w.failed {
			t.Errorf("%q passes", text)
		}
	}
}

func TestSectionIsReplacedAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(path, []byte("a\n<b>\nold\n<e>\nz\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := Section{Begin: "<b>\n", End: "<e>\n"}
	if err := s.Replace(path, "new\n"); err != nil {
		t.Fatal(err)
	}
	text, err := s.Read(path)
	if all, _ := os.ReadFile(path); string(all) != "a\n<b>\nnew\n<e>\nz\n" || text != "new\n" || err != nil {
		t.Errorf("%q, the section is %q: %v", all, text, err)
	}
	if err := (Section{Begin: "<e>", End: "<b>"}).Replace(path, ""); err == nil {
		t.Error("marks in the wrong order are accepted")
	}
}
