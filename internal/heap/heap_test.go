package heap

import "testing"

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
