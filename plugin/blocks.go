package clusterset

import (
	"context"
	"slices"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"

	"github.com/clusterset/clusterset/plugin/express"
)

// serverBlocks returns the configs of c's own server block, one per key, and those of all other blocks. Call it in OnStartup: by then bind
// has set where each block listens.
func serverBlocks(c *caddy.Controller) (mine, others []*dnsserver.Config) {
	at := *c
	for at.ServerBlockIndex = 0; ; at.ServerBlockIndex++ {
		block := blockConfigs(at)
		switch {
		case len(block) == 0:
			return mine, others
		case at.ServerBlockIndex == c.ServerBlockIndex:
			mine = block
		default:
			others = append(others, block...)
		}
	}
}

// blockConfigs returns the configs of a server block, one per key. Beyond the last key, dnsserver.GetConfig creates a config without a
// port. The servers exist by now, so that does no harm.
func blockConfigs(at caddy.Controller) []*dnsserver.Config {
	var configs []*dnsserver.Config
	for at.ServerBlockKeyIndex = 0; ; at.ServerBlockKeyIndex++ {
		config := dnsserver.GetConfig(&at)
		if config == nil || config.Port == "" {
			return configs
		}
		configs = append(configs, config)
	}
}

// otherZones lists the zones of other server blocks that share an address with c's block, whatever plugins serve them.
func otherZones(c *caddy.Controller) []innerZone {
	mine, others := serverBlocks(c)
	at := map[string]bool{}
	for _, config := range mine {
		for _, addr := range express.Addresses(config) {
			at[addr] = true
		}
	}
	var zones []innerZone
	for _, other := range others {
		shared := slices.DeleteFunc(express.Addresses(other), func(addr string) bool { return !at[addr] })
		if len(shared) > 0 {
			zones = append(zones, innerZone{name: other.Zone, at: shared})
		}
	}
	return zones
}

// serverAddr returns the address of the server that answers a query.
func serverAddr(ctx context.Context) string {
	if s, ok := ctx.Value(dnsserver.Key{}).(*dnsserver.Server); ok {
		return s.Addr
	}
	return ""
}
