package heap

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"
)

func TestPercentOf(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		live, room uint64
		percent    int
		want       int
	}{
		{0, 64 * mib, 400, 400},
		{16 * mib, 64 * mib, 400, 400}, // 400 % of 16 MiB is exactly the room
		{32 * mib, 64 * mib, 400, 200},
		{128 * mib, 64 * mib, 400, 50},
		{1000 * mib, 64 * mib, 400, 40}, // two fifths of the live heap, which is the minimum
		{1024 * mib, 128 * mib, 30, 30}, // never more than the given ratio
	} {
		if got := percentOf(c.live, c.percent, c.room); got != c.want {
			t.Errorf("%d MiB live, %d %% but no more than %d MiB: got %d %%, want %d %%", c.live/mib, c.percent, c.room/mib, got, c.want)
		}
	}
}

// The collector's ratio follows the size of the live heap, up and down.
func TestTuneFollowsTheHeap(t *testing.T) {
	was, limit := debug.SetGCPercent(100), debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetGCPercent(was); debug.SetMemoryLimit(limit) })
	t.Setenv("GOGC", "") // the user has set a value, even if it is empty
	Tune(400, 8<<20)
	if got := percent(); got != 100 {
		t.Fatalf("GOGC is %d although the environment has one", got)
	}
	follow(400, 8<<20, 0)
	lives := make([]byte, 64<<20)
	eventually(t, func(percent uint64) bool { return percent == 39 || percent == 40 })
	runtime.KeepAlive(lives) // garbage from here on
	eventually(t, func(percent uint64) bool { return percent > 40 })
}

func eventually(t *testing.T, ok func(percent uint64) bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
		if runtime.GC(); ok(percent()) {
			return
		}
	}
	t.Fatalf("GOGC is %d", percent())
}

func percent() uint64 {
	s := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}
