package clusterset

import (
	"slices"

	"github.com/miekg/dns"
)

// CacheBypassZones implements the cache plugin's ZoneBypasser. Our answers come from memory, and a cache would spoil them: it
// drops extended errors, repeats for five seconds the SERVFAIL of a server that isn't synced yet, and raises a TTL below five
// seconds. Zones from which names fall through stay in the cache, for the answers of the plugin behind us are in them.
func (c *ClusterSet) CacheBypassZones() []string {
	var names []string
	for _, z := range c.zones {
		if !slices.ContainsFunc(c.Fall.Zones, func(through string) bool {
			return dns.IsSubDomain(through, z.name) || dns.IsSubDomain(z.name, through)
		}) {
			names = append(names, z.name)
		}
	}
	return names
}
