package clusterset

import (
	"context"
	"sync"
	"time"

	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin/transfer"

	"github.com/clusterset/clusterset/internal/index"
)

// notifyInterval is how often a zone's serial is checked, and so the shortest time between two NOTIFYs: each one makes every secondary
// transfer the whole zone.
const notifyInterval = 2 * time.Second

// notifier sends NOTIFY (RFC 1996) to the secondaries of a server block's zones when the serial changes. The block's transfer plugin
// knows the secondaries and sends it. One NOTIFY goes out at the start, because the serial may have changed while no server ran.
type notifier struct {
	config *dnsserver.Config
	zones  zones
	index  *index.Index
}

// run notifies until ctx ends. It does nothing if the block has no transfer plugin.
func (n *notifier) run(ctx context.Context) {
	t, ok := n.config.Handler("transfer").(*transfer.Transfer)
	if !ok {
		return
	}
	var wg sync.WaitGroup
	for _, z := range n.zones {
		wg.Go(func() { n.follow(ctx, z.name, t.Notify) })
	}
	wg.Wait()
}

// follow calls notify when the serial changes. notify spends up to six seconds on each secondary that doesn't answer. A secondary that
// misses a NOTIFY checks the serial on its own within REFRESH.
func (n *notifier) follow(ctx context.Context, zone string, notify func(zone string) error) {
	tick := time.NewTicker(notifyInterval)
	defer tick.Stop()
	var told uint32
	failing := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		snapshot := n.index.Snapshot()
		if snapshot == nil || snapshot.Serial() == told {
			continue
		}
		told = snapshot.Serial()
		done := make(chan error, 1)
		go func() { done <- notify(zone) }()
		select {
		case <-ctx.Done():
			return // notify can't be cancelled; a reload doesn't wait for it
		case err := <-done:
			if err != nil && !failing {
				log.Warningf("zone %s: %v", zone, err)
			}
			failing = err != nil
		}
	}
}
