package clusterset

import (
	"strings"
	"testing"

	"github.com/coredns/coredns/plugin/pkg/fall"

	"github.com/clusterset/clusterset/internal/index"
)

func TestZonesThatTheCacheLeavesAlone(t *testing.T) {
	for _, c := range []struct{ zones, fall, want string }{
		{"clusterset.local. svc.global.", "", "clusterset.local. svc.global."},
		{"clusterset.local. global.", "legacy.global.", "clusterset.local. svc.global."},
		{"clusterset.local. global.", ".", ""},
		{"clusterset.local. global.", "global.", "clusterset.local."},
		{"clusterset.local. global.", "legacy.ns.svc.global.", "clusterset.local."},
		{"a.fleet.example. svc.global.", "example.", "svc.global."},
		{"example. a.example.", "a.example.", ""},
		{"a.example. xa.example.", "a.example.", "xa.example."},
	} {
		cs := &ClusterSet{Fall: fall.F{Zones: strings.Fields(c.fall)}}
		for _, name := range strings.Fields(c.zones) {
			cs.zones = append(cs.zones, newZone(name, index.MCS))
		}
		if got := strings.Join(cs.CacheBypassZones(), " "); got != c.want {
			t.Errorf("%s with fallthrough %s: got %q, want %q", c.zones, c.fall, got, c.want)
		}
	}
}
