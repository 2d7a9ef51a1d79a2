package index

import (
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/clusterset/clusterset/internal/topology"
)

// Names with a zone in front of a headless service are answered as seen from that zone, not from the server's. CoreDNS's plugin kubernetes
// has the same names for its own cluster (its option zonal). Few services are asked for so, and each has as many answers as there are
// zones. So they are computed when they are asked for, and kept with the Set.

// zoneLabel is the label between a directive and the service's name.
const zoneLabel = "_zone"

// hasZoneLabel reports whether labels in front of a service's name end with zoneLabel.
func hasZoneLabel(labels string) bool {
	front, ok := strings.CutSuffix(labels, zoneLabel)
	return ok && (front == "" || front[len(front)-1] == '.')
}

// findZone finds <zone>.pin._zone and <zone>.prefer._zone, and the empty non-terminals above them.
func (l *Lookup) findZone() {
	if !l.Set.Headless {
		return
	}
	front := strings.TrimSuffix(strings.TrimSuffix(l.Labels, zoneLabel), ".")
	if front == "" || isDirective(front) {
		l.Kind = Empty
		return
	}
	dot := strings.LastIndexByte(front, '.')
	if dot <= 0 || !isDirective(front[dot+1:]) {
		return
	}
	zone := front[:dot]
	escaped := (len(zone)-len(strings.TrimRight(zone, `\`)))%2 == 1 // the dot is a part of a label
	if !escaped && zone[0] != '_' {                                 // no zone's name begins so, but that of a port of a zone would
		l.Kind, l.zone = ZoneName, zoneName{zone, front[dot+1:] == pin}
	}
}

// The directives of names with a zone, as CoreDNS's plugin kubernetes calls them.
const (
	pin    = "pin"    // in the zone or not at all
	prefer = "prefer" // in the zone if possible
)

func isDirective(label string) bool { return label == pin || label == prefer }

// Zonal completes the Lookup of a ZoneName, which Lookup leaves to it: unlike Lookup it takes a lock and allocates.
func (s *Snapshot) Zonal(l *Lookup) {
	svc := s.services.get(string(l.Key))
	if svc == nil || l.Set.zonal == nil {
		return
	}
	in := svc.ranked(l.Set.Source)
	a := l.Set.zonal.answer(s.ranker, &in, l.Set, l.zone)
	l.Addrs, l.Weights, l.Targets = a.addrs, a.weights, a.targets
	l.dropUseless()
}

// zoneName is a zone that a client names, in lower case. pin is set if no other zone will do.
type zoneName struct {
	zone string
	pin  bool
}

// zoneAnswer has the records of a zoneName.
type zoneAnswer struct {
	addrs   Addrs
	weights Weights
	targets Targets
}

// zonal keeps the answers of a headless Set by zone.
type zonal struct {
	mu sync.Mutex
	// generation is that of the ranker that the others were made by.
	generation uint64
	zones      map[string]bool // of the endpoints themselves
	answers    map[zoneName]*zoneAnswer
}

// answer returns the answer for a name. All zones that nobody has share one, so that their number is bounded, whatever clients ask for.
func (z *zonal) answer(r *ranker, in *rankable, set *Set, name zoneName) *zoneAnswer {
	places := r.places()
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.answers == nil || z.generation != r.generation {
		z.generation, z.zones, z.answers = r.generation, zonesOf(in.groups), map[zoneName]*zoneAnswer{}
	}
	if _, known := places.regions[name.zone]; !known && !z.zones[name.zone] {
		name.zone = ""
	}
	a := z.answers[name]
	if a == nil {
		a = r.rankFrom(places, in, set, name)
		name.zone = strings.Clone(name.zone) // it is a part of a query
		z.answers[name] = a
	}
	return a
}

// zonesOf returns the zones of endpoints that have their own, in lower case.
func zonesOf(groups []Group) map[string]bool {
	zones := map[string]bool{}
	for i := range groups {
		for j := range groups[i].Endpoints {
			if zone := groups[i].Endpoints[j].Zone; zone != "" {
				zones[strings.ToLower(zone)] = true
			}
		}
	}
	return zones
}

// places is what zonal names need to know of all clusters.
type places struct {
	// regions has the region of each zone, in lower case. It is empty if it isn't known, or if the clusters in the zone have several.
	regions map[string]string
	// members are the clusters, with their zones in lower case.
	members map[string]*topology.Member
}

// places computes them once for each change of a cluster.
func (r *ranker) places() *places {
	r.once.Do(func() {
		p := &places{map[string]string{}, map[string]*topology.Member{}}
		several := map[string]bool{}
		for name, c := range r.clusters {
			m := c.Member
			m.Zones = make([]string, len(c.Zones))
			for i, zone := range c.Zones {
				zone = strings.ToLower(zone)
				m.Zones[i] = zone
				before, found := p.regions[zone]
				several[zone] = several[zone] || found && before != m.Region
				if !found || m.Region == r.self.Region {
					p.regions[zone] = m.Region
				}
			}
			p.members[name] = &m
		}
		for zone := range several {
			if several[zone] && p.regions[zone] != r.self.Region {
				p.regions[zone] = ""
			}
		}
		if r.self.Zone != "" {
			p.regions[strings.ToLower(r.self.Zone)] = r.self.Region
		}
		r.all = p
	})
	return r.all
}

// rankFrom ranks the candidates that the server has for the service as seen from the zone that the client names.
func (r *ranker) rankFrom(p *places, in *rankable, set *Set, name zoneName) *zoneAnswer {
	own := r.view(in)
	v := topology.View{
		// A server never considers its own cluster dead.
		Self:   topology.Location{Cluster: r.self.Cluster, Zone: name.zone, Region: p.regions[name.zone]},
		Policy: topology.Policy{Prefer: topology.DefaultPrefer, MinReady: own.Policy.MinReady},
	}
	if name.pin {
		v.Policy.Boundary = topology.Zone
	}
	candidates, _ := r.candidates(&own, in)
	weighted := r.weigh(candidates)
	findHosts(set, r.hostKeys(in.service.key, candidates), candidates)
	for i := range candidates {
		c := &candidates[i]
		c.rank = v.Rank(&topology.Endpoint{
			Cluster: c.group.Cluster, Member: p.members[c.group.Cluster], Zone: strings.ToLower(c.Zone), Region: c.group.Region, Spare: c.spare,
		})
	}
	candidates = slices.DeleteFunc(candidates, func(c candidate) bool { return !c.rank.Usable() })
	last := lastOf(&v, candidates, func(int) bool { return true })
	var addrs []netip.Addr
	for i := range candidates {
		if candidates[i].rank <= last {
			addrs = append(addrs, candidates[i].Addr)
		}
	}
	a := &zoneAnswer{addrs: SortAddrs(addrs)}
	if weighted {
		a.weights = addrWeights(a.addrs, candidates, last)
	}
	_, a.targets = hostPorts(&v, in.ports, candidates, set.HostWeights, false, last)
	return a
}
