package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
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

// scrape reads an agent's metrics.
func (m *member) scrape(ctx context.Context) (samples, error) {
	text, err := m.Metrics.Read(ctx)
	return samples(strings.Split(string(text), "\n")), err
}

// samples are metrics in Prometheus's text format.
type samples []string

// sum adds up the series of a metric that have all the labels, each given as name="value".
func (s samples) sum(name string, labels ...string) (sum float64) {
series:
	for _, line := range s {
		rest, ok := strings.CutPrefix(line, name)
		if !ok || rest == "" || rest[0] != '{' && rest[0] != ' ' {
			continue
		}
		for _, l := range labels {
			if !strings.Contains(rest, l) {
				continue series
			}
		}
		value, _ := strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64)
		sum += value
	}
	return sum
}
