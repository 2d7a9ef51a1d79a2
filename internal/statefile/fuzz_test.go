package statefile

import (
	"bytes"
	"runtime"
	"testing"
)

// FuzzFile decodes files, both as they are and with a valid checksum. A state that can be read can also be written, and
// reading that gives the same state. Reading must not take far more memory than the file's size, or a file could exhaust
// the memory.
func FuzzFile(f *testing.F) {
	good := encoded(f, sample())
	f.Add(good, false)
	for _, n := range []int{10, 100, 200, 300, len(good) - 200} {
		f.Add(good[len(opening):n+len(opening)], true)
	}
	f.Add(good[len(opening):len(good)-footerSize], true)
	f.Fuzz(func(t *testing.T, data []byte, seal bool) {
		if seal {
			data = sealed(opening + string(data))
		}
		checkFile(t, data)
	})
}

func checkFile(t *testing.T, data []byte) {
	t.Helper()
	var before, after runtime.MemStats
	measure := len(data) > 4096 // reading memory statistics stops the world
	if measure {
		runtime.ReadMemStats(&before)
	}
	s, _, err := decode(data)
	if measure {
		runtime.ReadMemStats(&after)
		if cost := after.TotalAlloc - before.TotalAlloc; cost > uint64(len(data))*200+32<<20 {
			t.Errorf("%d bytes cost %d", len(data), cost)
		}
	}
	if err != nil {
		return
	}
	written := encoded(t, s)
	again, notes, err := decode(written)
	if err != nil || len(notes) > 0 {
		t.Fatalf("what was read and written can't be read: %v %v", err, notes)
	}
	if !bytes.Equal(encoded(t, again), written) {
		t.Errorf("got %s, want %s", encoded(t, again), written)
	}
}
