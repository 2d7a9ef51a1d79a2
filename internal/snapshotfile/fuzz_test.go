package snapshotfile

import (
	"bytes"
	"crypto/sha256"
	"reflect"
	"runtime"
	"testing"
)

// FuzzFile gives Decode files, as they are and with a checksum that vouches for them. Whatever is read can be written, and
// reads as the same; what costs far more memory than a file's size is a way to exhaust it.
func FuzzFile(f *testing.F) {
	good := encoded(f, sample())
	f.Add(good, false)
	for _, n := range []int{10, 100, 200, 300, len(good) - 40} {
		f.Add(good[len(magic)+len(version)+1:n+len(magic)], true)
	}
	f.Add(good[len(magic)+len(version)+1:len(good)-sha256.Size], true)
	f.Fuzz(func(t *testing.T, data []byte, seal bool) {
		if seal {
			data = append([]byte(magic+version+"\n"), data...)
			sum := sha256.Sum256(data)
			data = append(data, sum[:]...)
		}
		var before, after runtime.MemStats
		measure := len(data) > 4096 // reading statistics stops the world
		if measure {
			runtime.ReadMemStats(&before)
		}
		s, err := Decode(data)
		if measure {
			runtime.ReadMemStats(&after)
			if cost := after.TotalAlloc - before.TotalAlloc; cost > uint64(len(data))*100+16<<20 {
				t.Errorf("%d bytes cost %d", len(data), cost)
			}
		}
		if err != nil {
			return
		}
		var b bytes.Buffer
		if err := Encode(&b, s); err != nil {
			t.Fatal(err)
		}
		again, err := Decode(b.Bytes())
		if err != nil {
			t.Fatalf("what was read and written can't be read: %v", err)
		}
		if !reflect.DeepEqual(again, s) {
			t.Errorf("got %+v, want %+v", again, s)
		}
	})
}
