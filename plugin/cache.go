package clusterset

import (
	"slices"

	"github.com/miekg/dns"
)

// CacheBypassZones implements the cache plugin's ZoneBypasser. Our answers come from memory, and a cache would spoil them: it
// drops extended errors, repeats for five seconds the SERVFAIL of a server that isn't synced yet, and raises a TTL below five
// seconds. Zones from which names fall through, and what is passed on of global, stay in the cache: their answers are another
// plugin's.
func (c *ClusterSet) CacheBypassZones() []string {
	var names []string
	for _, z := range c.zones {
		if c.mayFallThrough(z) {
			continue
		}
		if z.name == public {
			names = append(names, publicOurs)
		} else {
			names = append(names, z.name)
		}
	}
	return names
}

// mayFallThrough reports whether a name of the zone can be passed on to the next plugin.
func (c *ClusterSet) mayFallThrough(z *zone) bool {
	name := z.name
	if name == public {
		name = publicOurs // the rest is passed on in any case
	}
	return slices.ContainsFunc(c.Fall.Zones, func(through string) bool {
		return dns.IsSubDomain(through, name) || dns.IsSubDomain(name, through)
	})
}
