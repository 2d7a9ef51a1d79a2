//go:build !race

// These tests count allocations, and the race detector would add its own. To run them: make test-bounds.

package console

import (
	"net/http"
	"net/url"
	"runtime"
	"testing"

	"github.com/clusterset/clusterset/test/largeset"
)

// allocated returns the bytes that f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// Bounds the bytes that each view allocates and sends at 250 clusters and 5,000 services.
func TestLargeSet(t *testing.T) {
	objects := largeset.Records(5, 10)
	s := New(Options{})
	s.AddSource(Source{Role: RoleHub, State: Live})
	const kB, MB = 1 << 10, 1 << 20
	var sent int
	get := func(target string) func() {
		return func() {
			got := ask(t, s, target, nil)
			if got.Code != http.StatusOK {
				t.Fatalf("%s: status %d", target, got.Code)
			}
			sent = got.Body.Len()
		}
	}
	for _, c := range []struct {
		name       string
		do         func()
		bytes, out int
	}{
		{"the records", func() { s.SetRecords(objects) }, 320 * MB, 0},
		{"the map", get("/api/map"), 2 * MB, 100 * kB},
		{"a page of services", get("/api/services?q=svc-49&sort=ready&desc=1"), 2 * MB, 100 * kB},
		{"a service", get("/api/service?service=ns-0/svc-7"), 8 * MB, 32 * kB},
		{"the problems", get("/api/problems"), 8 * MB, 64 * kB},
		{"the links, which are too many to count", get("/api/links"), 8 * MB, 64 * kB},
		{"the map with changes", get("/api/map?changes=" + url.QueryEscape(`[{"drain":["cluster-007"]},{"down":["cluster-008"]}]`)), 16 * MB, 100 * kB},
		{"a service with changes", get("/api/service?service=ns-0/svc-7&changes=" + url.QueryEscape(`[{"drain":["cluster-007"]}]`)), 16 * MB, 64 * kB},
	} {
		sent = 0
		if got := allocated(c.do); got > uint64(c.bytes) {
			t.Errorf("%s: %d kB allocated, want %d at most", c.name, got/kB, c.bytes/kB)
		} else {
			t.Logf("%s: %d kB allocated, %d kB sent", c.name, got/kB, sent/kB)
		}
		if sent > c.out {
			t.Errorf("%s: %d kB sent, want %d at most", c.name, sent/kB, c.out/kB)
		}
	}
}
