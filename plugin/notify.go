package clusterset

import (
	"context"
	"sync"
	"time"

	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin/transfer"

	"github.com/clusterset/clusterset/internal/index"
)

// notifyInterval is how often a zone's serial is looked at, and so the most often that secondaries are told of a change: each of them
// answers with a transfer of the whole zone.
const notifyInterval = 2 * time.Second

// notifier tells the secondaries of a server block's zones that the serial has moved (RFC 1996), through the transfer plugin of
// the block, which knows who they are. It also does so once at the start: the serial may have moved while no server ran.
type notifier struct {
	config *dnsserver.Config
	zones  zones
	index  *index.Index
}

// run notifies until ctx ends. Where the block has no transfer plugin it does nothing.
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

// follow calls notify, which tries for up to six seconds for each secondary that doesn't answer, when the serial has moved. A secondary
// that missed it asks by itself within REFRESH.
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
			return // notify can't be ended early; a reload doesn't wait for it
		case err := <-done:
			if err != nil && !failing {
				log.Warningf("zone %s: %v", zone, err)
			}
			failing = err != nil
		}
	}
}
