package prober

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

// Rules D42, D44 and D87 of docs/spec/data-path.md: what is dialled of what a report states. The rest is counted.
func TestBeaconsThatAreDialled(t *testing.T) {
	type list = []string
	ours, avoid := api.Networks(list{"10.0.0.0/16"}), []netip.Addr{netip.MustParseAddr("10.1.0.99")}
	for _, c := range []struct {
		name              string
		apart             bool
		networks          list
		beacons, services list
		ask               bool // for ClusterIPs, as it is the data path
		want              list
		ignored           int
	}{
		{"the beacons", false, list{"10.1.0.0/16"}, list{"10.1.0.2:1", "10.1.0.1:1"}, list{"10.1.9.9:1"}, false, list{"10.1.0.1:1", "10.1.0.2:1"}, 0},
		{"the Service", false, list{"10.1.0.0/16"}, list{"10.1.0.1:1"}, list{"10.1.9.9:1"}, true, list{"10.1.9.9:1"}, 0},
		{"no Service", false, list{"10.1.0.0/16"}, list{"10.1.0.1:1"}, nil, true, list{"10.1.0.1:1"}, 0},
		{"twice the same", false, nil, list{"10.1.0.1:1", "10.1.0.1:1"}, nil, false, list{"10.1.0.1:1"}, 1},
		{"in none of its networks", false, list{"10.1.0.0/16"}, list{"192.0.2.1:1"}, nil, false, nil, 1},
		{"in ours, and nowhere", false, nil, list{"10.0.0.7:1", "127.0.0.1:1", "169.254.1.1:1", "192.0.2.1:1"}, nil, false, list{"192.0.2.1:1"}, 3},
		{"the hub", false, list{"10.1.0.0/16"}, list{"10.1.0.99:1"}, nil, false, nil, 1},
		{"no address, and too many", false, nil, list{"10.1.0.1:1", "10.1.0.2:1", "10.1.0.3:1", "10.1.0.4:1", "10.1.0.5:1", "x"}, nil, false, list{"10.1.0.1:1", "10.1.0.2:1", "10.1.0.3:1", "10.1.0.4:1"}, 2},
		{"another network", true, list{"192.0.2.0/24"}, list{"10.0.0.7:1", "192.0.2.1:1"}, list{"192.0.2.9:1"}, true, list{"192.0.2.1:1"}, 1},
		{"another network without externalCIDRs", true, nil, list{"192.0.2.1:1"}, nil, false, nil, 1},
	} {
		p := &peer{apart: c.apart, networks: api.Networks(c.networks)}
		p.learn(&clustersetv1alpha1.MemberReportSpec{Beacons: c.beacons, BeaconServices: c.services}, c.ask, time.Now())
		p.choose(ours, avoid)
		if got, ignored := p.dialled(); !slices.Equal(got, c.want) || ignored != c.ignored {
			t.Errorf("%s: %v and %d others, want %v and %d", c.name, got, ignored, c.want, c.ignored)
		}
	}
}

// Rule D43: the longer a beacon is missing, the less often its report is read.
func TestWhenReportsAreRead(t *testing.T) {
	for name, c := range map[string]struct {
		stated  []netip.AddrPort
		missing bool
		want    []time.Duration
	}{
		"it answers":        {make([]netip.AddrPort, 1), false, []time.Duration{0, 600, 1200}},
		"it doesn't":        {make([]netip.AddrPort, 1), true, []time.Duration{0, 2, 4, 8, 16, 32, 64, 124, 184}},
		"there is none yet": {nil, true, []time.Duration{0, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 1624}},
	} {
		var got []time.Duration
		began := time.Now()
		p := &peer{stated: c.stated}
		if c.missing {
			p.missing = began
		}
		for i := time.Duration(0); len(got) < len(c.want) && i < 2000; i++ {
			if now := began.Add(i * time.Second); p.due(now) {
				got, p.read = append(got, i), now
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: it is read after %d s, want %d", name, got, c.want)
		}
	}
}
