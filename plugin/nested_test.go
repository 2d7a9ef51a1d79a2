package clusterset_test

import (
	"fmt"
	"testing"
)

// A zone within ours exists only at the addresses of its server block (RFC 8020 for A15). At another address of ours, nobody answers for it.
func TestANestedZoneCountsWhereItIsServed(t *testing.T) {
	s := startLive(t, fmt.Sprintf(`clusterset.local:0 {
    bind 127.0.0.1 127.0.0.2
    clusterset {
        manifests %s
    }
}
a.b.clusterset.local:0 {
    bind 127.0.0.2
    erratic {
        drop 0
    }
}
`, t.TempDir()))
	want := map[string]string{"127.0.0.1": "NXDOMAIN", "127.0.0.2": "NODATA"}
	for _, listener := range listening(s.instance) {
		addr := listener.LocalAddr().String()
		host := addr[:len("127.0.0.1")]
		got, err := askAt(addr, "A b.clusterset.local")
		if err != nil || got != want[host] {
			t.Errorf("at %s: got %s, %v, want %s", addr, got, err, want[host])
		}
		delete(want, host)
	}
	if len(want) > 0 {
		t.Errorf("not asked: %v", want)
	}
}
