package clusterset

import (
	"slices"
	"testing"

	"github.com/coredns/coredns/plugin/pkg/fall"

	"github.com/clusterset/clusterset/internal/index"
)

func TestZonesThatTheCacheLeavesAlone(t *testing.T) {
	for _, c := range []struct {
		name              string
		zones, fall, want []string
	}{
		{"all without fallthrough", []string{"clusterset.local.", "svc.global."}, nil, []string{"clusterset.local.", "svc.global."}},
		{"of global what isn't passed on", []string{"clusterset.local.", "global."}, []string{"legacy.global."}, []string{"clusterset.local.", "svc.global."}},
		{"none with fallthrough for all", []string{"clusterset.local.", "global."}, fall.Root.Zones, nil},
		{"not the zone that falls through", []string{"clusterset.local.", "global."}, []string{"global."}, []string{"clusterset.local."}},
		{"not one with names that fall through", []string{"clusterset.local.", "global."}, []string{"legacy.ns.svc.global."}, []string{"clusterset.local."}},
		{"not one within what falls through", []string{"a.fleet.example.", "svc.global."}, []string{"example."}, []string{"svc.global."}},
		{"not one around a zone that falls through", []string{"example.", "a.example."}, []string{"a.example."}, nil},
		{"one beside what falls through", []string{"a.example.", "xa.example."}, []string{"a.example."}, []string{"xa.example."}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cs := &ClusterSet{Fall: fall.F{Zones: c.fall}}
			for _, name := range c.zones {
				cs.zones = append(cs.zones, newZone(name, index.MCS))
			}
			if got := cs.CacheBypassZones(); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
