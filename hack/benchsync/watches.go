package main

import (
	"context"
	"fmt"
	"strings"
)

// watchesOfFew counts near's watches while the hub has two clusters.
func (b *bench) watchesOfFew(ctx context.Context) error {
	return b.countWatches(ctx, 2)
}

// countWatches restarts near's agent and counts the watches that it opens on the hub.
func (b *bench) countWatches(ctx context.Context, clusters int) error {
	b.say("counting watches with %d clusters", clusters)
	b.near.Agent.Kill()
	from := b.hub.audit.size()
	if err := b.near.restartAgent(ctx); err != nil {
		return err
	}
	if err := b.synced(ctx, b.near); err != nil {
		return err
	}
	opened, open, err := b.hub.audit.watches(from, agentOnHub(b.near.Name))
	if err != nil {
		return err
	}
	b.row(fmt.Sprintf("watches of a member on the hub, %d clusters", clusters), "", "", "",
		fmt.Sprintf("%d open (%s), %d opened", len(open), strings.Join(open, ", "), opened))
	return nil
}
