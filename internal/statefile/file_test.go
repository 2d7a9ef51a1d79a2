package statefile

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/clusterset/clusterset/internal/index"
	"github.com/clusterset/clusterset/test/kube"
)

// generation is a state that says in each part which one it is, so that a mixture shows.
func generation(n uint32) *State {
	s := &State{Known: time.Unix(int64(n), 0), Serial: n}
	for i := range 2000 {
		s.Objects = append(s.Objects, &index.ServiceImport{
			Service: index.NewServiceKey("ns", "s"+string(rune('a'+i%26))),
			IPs:     index.Addrs{netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)})},
		})
	}
	return s
}

func checkGeneration(t *testing.T, s *State) {
	t.Helper()
	if len(s.Objects) != 2000 {
		t.Fatalf("%d objects", len(s.Objects))
	}
	want := generation(s.Serial).Objects[0].(*index.ServiceImport).IPs[0]
	for _, o := range s.Objects {
		if got := o.(*index.ServiceImport).IPs[0]; got != want {
			t.Fatalf("%v of another generation than %v", got, want)
		}
	}
}

// TestWriterProcess is the process that the next test kills. By itself it does nothing.
func TestWriterProcess(t *testing.T) {
	path := os.Getenv("STATE_TEST_FILE")
	if path == "" {
		return // no test: a role of this binary
	}
	for n := uint32(1); ; n++ {
		if err := Write(path, generation(n)); err != nil {
			t.Fatal(err)
		}
	}
}

// A process killed at any moment leaves the last file or the next, whole.
func TestAKilledWriterLeavesAWholeFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "state")
	if err := Write(path, generation(0)); err != nil {
		t.Fatal(err)
	}
	var last uint32
	for i := range 8 {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestWriterProcess$")
		cmd.Env = append(os.Environ(), "STATE_TEST_FILE="+path)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		// Not before it writes: not before there is a file other than the one that it found. Read as it is being replaced.
		kube.Eventually(t, time.Minute, func() error {
			s, _, err := Read(path)
			if err != nil {
				t.Fatal(err)
			}
			checkGeneration(t, s)
			if s.Serial == last || s.Serial <= uint32(i) { //nolint:gosec // small
				return fmt.Errorf("generation %d is the last that it wrote", s.Serial)
			}
			return nil
		})
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		s, _, err := Read(path)
		if err != nil {
			t.Fatalf("after kill %d: %v", i, err)
		}
		checkGeneration(t, s)
		last = s.Serial
	}
	// What they left half-written goes with the first write that finds it old.
	old := time.Now().Add(-2 * leftover)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if err := os.Chtimes(filepath.Join(dir, e.Name()), old, old); err != nil {
			t.Fatal(err)
		}
	}
	other := filepath.Join(dir, ".other.1.tmp")
	if err := os.WriteFile(other, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(other, old, old); err != nil {
		t.Fatal(err)
	}
	if err := Write(path, generation(9)); err != nil {
		t.Fatal(err)
	}
	entries, err = os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("the folder has %v, %v; want the file and someone else's", entries, err)
	}
}

func TestTheFileIsItsOwnersAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	if err := os.WriteFile(path, nil, 0o444); err != nil { // that it is read-only doesn't keep it from being replaced
		t.Fatal(err)
	}
	if err := Write(path, generation(1)); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestReadNeedsARegularFile(t *testing.T) {
	dir := t.TempDir()
	if _, _, err := Read(filepath.Join(dir, "missing")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	if _, _, err := Read(dir); err == nil {
		t.Error("a folder was read")
	}
}

func TestWriteSaysWhereItFails(t *testing.T) {
	if err := Write(filepath.Join(t.TempDir(), "missing", "state"), generation(1)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	if err := Write("/dev/full/snapshot", generation(1)); err == nil {
		t.Error("written below a device")
	}
}
