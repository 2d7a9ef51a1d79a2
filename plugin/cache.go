package clusterset

import (
	"slices"

	"github.com/miekg/dns"
)

// CacheBypassZones implements the cache plugin's ZoneBypasser. The plugin answers from memory, and a cache would make its
// answers worse: it drops extended errors, repeats the SERVFAIL of a server that isn't synced for five seconds, and raises a
// TTL below five seconds. Zones with fallthrough, and public names below global, are still cached: another plugin answers
// those.
func (c *ClusterSet) CacheBypassZones() []string {
	var names []string
	for _, z := range c.zones {
		if c.mayFallThrough(z) {
			continue
		}
		if z.name == public {
			names = append(names, svcGlobal)
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
		name = svcGlobal // other names in global always go to the next plugin
	}
	return slices.ContainsFunc(c.Fall.Zones, func(through string) bool {
		return dns.IsSubDomain(through, name) || dns.IsSubDomain(name, through)
	})
}
