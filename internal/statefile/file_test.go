package statefile

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/clusterset/clusterset/internal/index"
	"github.com/clusterset/clusterset/test/kube"
)

// generation returns a state with its number in each part, so that a mixture of two states can be detected.
func generation(n uint32) *State {
	s := &State{Known: time.Unix(int64(n), 0)}
	for i := range 2000 {
		s.Objects = append(s.Objects, &index.ServiceImport{
			Service: index.NewServiceKey("ns", "s"+string(rune('a'+i%26))),
			IPs:     index.Addrs{netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)})},
		})
	}
	return s
}

func number(s *State) uint32 { return uint32(s.Known.Unix()) } //nolint:gosec // small

func checkGeneration(t *testing.T, s *State) {
	t.Helper()
	if len(s.Objects) != 2000 {
		t.Fatalf("%d objects", len(s.Objects))
	}
	want := generation(number(s)).Objects[0].(*index.ServiceImport).IPs[0]
	for _, o := range s.Objects {
		if got := o.(*index.ServiceImport).IPs[0]; got != want {
			t.Fatalf("%v of another generation than %v", got, want)
		}
	}
}

// TestWriterProcess is the process that TestAKilledWriterLeavesAWholeFile starts and kills. Otherwise it does nothing.
func TestWriterProcess(t *testing.T) {
	path := os.Getenv("STATE_TEST_FILE")
	if path == "" {
		return // an ordinary test run
	}
	for n := uint32(1); ; n++ {
		if err := Write(path, generation(n)); err != nil {
			t.Fatal(err)
		}
	}
}

// A process that is killed at any moment leaves either the last complete file or the next.
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
		// Wait until the process has replaced the file, and read the file while it is being replaced.
		kube.Eventually(t, func() error {
			s, _, err := Read(path)
			if err != nil {
				t.Fatal(err)
			}
			checkGeneration(t, s)
			if n := number(s); n == last || n <= uint32(i) { //nolint:gosec // small
				return fmt.Errorf("generation %d is the last that it wrote", n)
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
		last = number(s)
	}
	// The first write that finds the killed processes' temporary files old removes them.
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
	if err := os.WriteFile(path, nil, 0o444); err != nil { // a read-only file can still be replaced
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

// Saving allocates a few buffers, not the whole content of the file.
func TestSavingIsStreamed(t *testing.T) {
	slice := slices.IndexFunc(sample().Objects, func(o index.Object) bool { return o.Kind() == index.KindEndpointSlice })
	s := &State{Objects: slices.Repeat(sample().Objects[slice:slice+1], 20_000)}
	path := filepath.Join(t.TempDir(), "state")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := Write(path, s)
	runtime.ReadMemStats(&after)
	if err != nil {
		t.Fatal(err)
	}
	const buffers = 1 << 20
	if each := (int64(after.TotalAlloc-before.TotalAlloc) - buffers) / int64(len(s.Objects)); each > 64 {
		t.Errorf("%d bytes for each object", each)
	}
}
