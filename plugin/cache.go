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
		name := z.name
		if name == public {
			name = publicOurs
		}
		if !slices.ContainsFunc(c.Fall.Zones, func(through string) bool {
			return dns.IsSubDomain(through, name) || dns.IsSubDomain(name, through)
		}) {
			names = append(names, name)
		}
	}
	return names
}
