package cli

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/beacon"
	"github.com/clusterset/clusterset/prober"
	"github.com/clusterset/clusterset/test/freeport"
)

// Rule D41 of docs/spec/data-path.md: an agent that is told to stop answers for as long as --beacon-linger says.
func TestBeaconLingers(t *testing.T) {
	for _, linger := range []time.Duration{0, time.Hour} {
		t.Run(linger.String(), func(t *testing.T) {
			at := netip.MustParseAddrPort("127.0.0.1:" + freeport.For(t))
			m := &member{cluster: "beijing", beaconBind: at.String(), beaconAddresses: []string{"192.0.2.1:9471"}, beaconLinger: linger}
			ctx, stop := context.WithCancel(t.Context())
			ended := m.serveBeacon(ctx)
			if _, err := beacon.Dial(t.Context(), at, "beijing"); err != nil {
				t.Fatal(err)
			}
			stop()
			if linger == 0 {
				<-ended
				if _, err := beacon.Dial(t.Context(), at, "beijing"); !errors.Is(err, beacon.ErrRefused) {
					t.Errorf("it answers: %v", err)
				}
				return
			}
			if _, err := beacon.Dial(t.Context(), at, "beijing"); err != nil {
				t.Errorf("it doesn't answer any more: %v", err)
			}
			select {
			case <-ended:
				t.Error("the process would end")
			default:
			}
		})
	}
	// Rule D42: a beacon that there isn't must not be dialled, or the cluster would count as unreachable.
	t.Run("a port that is taken stops nothing else, and isn't stated", func(t *testing.T) {
		stated := []netip.AddrPort{netip.MustParseAddrPort("192.0.2.1:9471")}
		m := &member{beaconBind: "192.0.2.1:9471", beaconAddresses: []string{"192.0.2.1:9471"}, announcer: prober.Announcer{Addresses: stated}}
		<-m.serveBeacon(t.Context())
		var said clustersetv1alpha1.MemberReportSpec
		if m.announcer.Report(t.Context(), &said); said.Beacons == nil || len(said.Beacons) > 0 {
			t.Errorf("the report states %v", said.Beacons)
		}
	})
	t.Run("nothing to tell the others", func(t *testing.T) {
		<-(&member{beaconBind: "127.0.0.1:0"}).serveBeacon(t.Context())
	})
}
