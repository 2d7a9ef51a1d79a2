package clusterset

import (
	"slices"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
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
func otherZones(c *caddy.Controller) []string {
	mine, others := serverBlocks(c)
	var zones []string
	for _, other := range others {
		if slices.ContainsFunc(mine, func(m *dnsserver.Config) bool { return sameAddress(m, other) }) {
			zones = append(zones, other.Zone)
		}
	}
	return zones
}

// sameAddress reports whether one server answers for both configs.
func sameAddress(a, b *dnsserver.Config) bool {
	return a.Transport == b.Transport && a.Port == b.Port &&
		slices.ContainsFunc(a.ListenHosts, func(host string) bool { return slices.Contains(b.ListenHosts, host) })
}
