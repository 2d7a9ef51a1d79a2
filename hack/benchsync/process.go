package main

import (
	"context"
	"fmt"
	"time"

	"github.com/clusterset/clusterset/test/fleet"
	"github.com/clusterset/clusterset/test/process"
)

// pollEvery is as long as the precision of the figures allows: frequent requests for its metrics would cost an agent more than its work.
const pollEvery = 250 * time.Millisecond

// await polls until ok returns true. It gives up after the limit, or when the program ends.
func (b *bench) await(ctx context.Context, p *fleet.Program, what string, ok func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, b.limit)
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	var last error
	for {
		done, err := ok()
		if done {
			return nil
		}
		if last = err; !p.Running() {
			return fmt.Errorf("%s ended while we waited until %s\n%s", p.Name, what, process.LogSince(p.Log, 0, 10))
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("gave up waiting until %s: %w (last: %w)\n%s", what, ctx.Err(), last, process.LogSince(p.Log, 0, 10))
		case <-tick.C:
		}
	}
}
