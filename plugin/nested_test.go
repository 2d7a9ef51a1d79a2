package clusterset_test

import (
	"fmt"
	"strings"
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
	for _, listener := range listening(s.instance) {
		addr := listener.LocalAddr().String()
		want := map[bool]string{true: "NXDOMAIN", false: "NODATA"}[strings.HasPrefix(addr, "127.0.0.1:")]
		if got, err := askAt(addr, "A b.clusterset.local"); err != nil || got != want {
			t.Errorf("at %s: got %s, %v, want %s", addr, got, err, want)
		}
	}
}
