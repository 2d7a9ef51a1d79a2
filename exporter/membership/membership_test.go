package membership

import (
	"strings"
	"testing"
)

// Rule C26 of docs/spec/control-plane.md. Each letter is a read: a capital names the cluster of another run that renewed the Lease then, a dot shows it unchanged, an
// exclamation mark isn't answered, a zero shows no holder, and a minus no Lease.
func TestWaiting(t *testing.T) {
	for _, c := range []struct {
		name, reads string
		own         string // this cluster
		free        bool   // after the last read, and not before
	}{
		{"no Lease", "-", "", true},
		{"handed over", "0", "", true},
		{"handed over meanwhile", "A..0", "", true},
		{"a run of this cluster, silent for one and a half intervals", "A...", "A", true},
		{"not for long enough", "A..", "A", false},
		{"it renews", "AA...", "A", false},
		{"and once it is gone, it counts as another's for thirty intervals", "AA" + strings.Repeat(".", 60), "A", true},
		{"one of another cluster", "A" + strings.Repeat(".", 59), "B", false},
		{"silent for thirty intervals", "A" + strings.Repeat(".", 60), "B", true},
		{"another one takes over meanwhile", "A" + strings.Repeat(".", 59) + "B" + strings.Repeat(".", 59), "", false},
		{"the hub is away meanwhile", "A" + strings.Repeat(".", 59) + "!" + strings.Repeat(".", 60), "", false},
		{"and back for thirty intervals", "A" + strings.Repeat(".", 59) + "!" + strings.Repeat(".", 61), "", true},
		{"the hub is away at first", "!A...", "A", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, l, free := Wait{}, Lease{}, false
			for i, r := range c.reads {
				if free {
					t.Fatalf("free after %d of %d reads", i, len(c.reads))
				}
				switch r {
				case '!':
					w.Unanswered()
					continue
				case '.':
				case '-':
					l = Lease{}
				case '0':
					l = Lease{Version: l.Version + "x"}
				default:
					l = Lease{Version: l.Version + "x", Holder: string(r)}
				}
				free = w.See(l, l.Holder == c.own)
			}
			if free != c.free {
				t.Errorf("free: %v", free)
			}
		})
	}
}
