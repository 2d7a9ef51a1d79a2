package clusterset

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/coredns/caddy"
	"github.com/coredns/caddy/caddyfile"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin/metrics"

	"github.com/clusterset/clusterset/internal/index"
	"github.com/clusterset/clusterset/plugin/express"
)

// expressAnswers returns what the express path needs to answer for this server block. cached is set if the block has a cache.
func (c *ClusterSet) expressAnswers(cached bool) *express.Answers {
	a := &express.Answers{
		TTL: c.ttl, Refresh: soaRefresh, Retry: soaRetry, Expire: soaExpire, MaxAnswers: c.maxAnswers,
		Snapshot: c.index.Snapshot,
		Self:     c.self.load,
		Count:    func(set *index.Set) { c.tiers[set.Count()].Inc() },
	}
	for _, z := range c.zones {
		through := c.mayFallThrough(z)
		a.Zones = append(a.Zones, express.Zone{
			Name: z.name, Origin: z.origin, NameServer: z.ns, Mailbox: z.mbox, Kind: z.kind(),
			Chain:      cached && (through || z.name == public),
			NameErrors: through || len(z.nested) > 0 || z.name == public,
		})
	}
	return a
}

// setupExpress plans an express path for each address of the server block where its replies are certain to be the same as the plugin
// chain's. The other addresses get a log line with the reason.
func (c *ClusterSet) setupExpress(ctl *caddy.Controller, auto bool) {
	config := dnsserver.GetConfig(ctl)
	plan, before := express.PlanOf(ctl), express.HandlersBefore(config)
	ctl.OnStartup(func() error {
		mine, others := serverBlocks(ctl)
		m, _ := config.Handler("prometheus").(*metrics.Metrics)
		block := express.Block{Configs: mine, Others: others, Before: before}
		reason := "the Corefile says express off"
		var answers *express.Answers
		if auto {
			var err error
			if block.Tokens, err = blockTokens(ctl); err != nil {
				reason = err.Error()
			} else {
				_, cached := block.Tokens["cache"]
				answers = c.expressAnswers(cached)
				answers.Imitate = block.Imitates()
				clusters, refusal := block.Clusters(c.Next, answers.Zones)
				if refusal != "" {
					log.Infof("express: off for the zones of kubernetes: %s", refusal)
				}
				answers.Add(clusters)
				if err := answers.Prepare(); err != nil {
					return err
				}
			}
		}
		for _, addr := range block.Addresses() {
			if answers != nil {
				reason = block.Refuse(addr, answers)
			}
			if reason == "" {
				plan.Want(addr, answers, m)
				continue
			}
			plan.Want(addr, nil, nil)
			log.Infof("express: off at %s: %s", addr, reason)
		}
		return nil
	})
}

// blockTokens returns the directives of the server block as written in the Corefile. The handlers don't expose all of their options.
func blockTokens(c *caddy.Controller) (map[string][]caddyfile.Token, error) {
	for _, instance := range caddy.Instances() {
		instance.StorageMu.RLock()
		same := instance.Storage[sourcesKey{}] == c.Get(sourcesKey{})
		instance.StorageMu.RUnlock()
		if !same || instance.Caddyfile() == nil {
			continue
		}
		blocks, err := caddyfile.Parse(instance.Caddyfile().Path(), bytes.NewReader(instance.Caddyfile().Body()), caddy.ValidDirectives(c.ServerType()))
		if err == nil && c.ServerBlockIndex >= len(blocks) {
			err = fmt.Errorf("there are %d server blocks, and this is block %d", len(blocks), c.ServerBlockIndex+1)
		}
		if err != nil {
			return nil, fmt.Errorf("the Corefile can't be read again: %w", err)
		}
		return blocks[c.ServerBlockIndex].Tokens, nil
	}
	return nil, errors.New("the Corefile isn't known")
}
