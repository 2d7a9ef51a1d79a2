package clusterset

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/clusterset/clusterset/internal/index"
)

func TestSecondariesAreNotifiedOnceForManyChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := index.New(index.Options{})
		n := &notifier{index: x}
		ctx, cancel := context.WithCancel(t.Context())
		var told []string
		done := make(chan struct{})
		go func() {
			defer close(done)
			n.follow(ctx, "clusterset.local.", func(zone string) error {
				told = append(told, zone)
				return errors.New("no answer: tried again with the next change")
			})
		}()
		change := func(name, ip string) {
			x.Put(&index.ServiceImport{Service: index.NewServiceKey("ns", name), IPs: index.Addrs{netip.MustParseAddr(ip)}})
		}
		expect := func(want int, when string) {
			t.Helper()
			time.Sleep(10 * notifyInterval) //nolint:forbidigo // on the clock of synctest
			synctest.Wait()
			if len(told) != want {
				t.Errorf("%d notifications %s, want %d", len(told), when, want)
			}
		}
		expect(0, "before anything is known")
		x.Publish()
		expect(1, "at the start")
		for _, ip := range []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"} {
			change("web", ip)
		}
		expect(2, "after three changes at once")
		change("web", "10.0.0.3")
		expect(2, "after a change of nothing")
		cancel()
		<-done
	})
}
