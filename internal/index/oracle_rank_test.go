package index

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/clusterset/clusterset/internal/topology"
)

// backend is an endpoint with all that counts for it.
type backend struct {
	addr          netip.Addr
	host          string // "<hostname>.<cluster>", empty where it can't have a name
	place         topology.Location
	degraded      bool
	declaredPorts []Port
}

func (w *world) ranked(id ObjectID, headless bool, declared []Port, groups []Group) facts {
	f := facts{exists: true, headless: headless, hosts: map[string][]string{}, clusters: map[string][]string{}, ports: map[string][]string{}}
	var inside []backend
	for _, b := range w.backends(id, groups) {
		f.live = true
		if w.matches(w.opts.Policy.Boundary, b.place) {
			inside = append(inside, b)
		}
	}
	best, tier := w.best(inside)
	f.tier, f.addrs = tier, addrsOf(best)
	for _, b := range inside {
		if c := b.place.Cluster; c != "" {
			f.clusters[c] = addrsOf(inside, func(o backend) bool { return o.place.Cluster == c })
		}
		if headless && b.host != "" {
			f.hosts[b.host] = addrsOf(inside, func(o backend) bool { return o.host == b.host })
		}
	}
	if !headless {
		f.setPorts(declared)
		return f
	}
	for _, p := range declared {
		f.setHeadlessPort(w, p, inside)
	}
	for _, b := range inside {
		for _, p := range b.declaredPorts {
			f.setHeadlessPort(w, p, inside)
		}
	}
	f.setUnion()
	return f
}

// backends lists the endpoints that are ready and whose cluster isn't gone.
func (w *world) backends(id ObjectID, groups []Group) []backend {
	var all []backend
	for _, g := range groups {
		c := Cluster{}
		if known := w.clusters[ObjectID{Name: g.Cluster}]; known != nil {
			c = *known
		}
		for _, e := range g.Endpoints {
			if !e.Ready || c.Health == Gone {
				continue
			}
			b := backend{addr: e.Addr, degraded: c.Health == Degraded, declaredPorts: g.Ports}
			b.place = topology.Location{Cluster: g.Cluster, Zone: c.Zone, Region: c.Region}
			if e.Zone != "" {
				b.place.Zone = e.Zone
			}
			if g.Region != "" {
				b.place.Region = g.Region
			}
			b.host = w.hostOf(id, e, g.Cluster)
			all = append(all, b)
		}
	}
	return all
}

// hostOf returns the endpoint's name in front of the service's, or "" where it would be no DNS name in one of the zones
// (RFC 1035: 255 octets, which are 254 characters with the final dot).
func (w *world) hostOf(id ObjectID, e Endpoint, cluster string) string {
	hostname := e.Hostname
	if hostname == "" {
		hostname = strings.NewReplacer(".", "-", ":", "-").Replace(e.Addr.String())
		if strings.HasPrefix(hostname, "-") {
			hostname = "0" + hostname
		}
		if strings.HasSuffix(hostname, "-") {
			hostname += "0"
		}
	}
	zone := strings.Repeat("z", w.opts.LongestZone)
	if cluster == "" || len(strings.Join([]string{hostname, cluster, id.Name, id.Namespace, "svc", zone}, ".")) > 254 {
		return ""
	}
	return hostname + "." + cluster
}

// best returns the backends of the best tier, healthy ones before all others.
func (w *world) best(all []backend) (best []backend, name string) {
	prefer := []topology.Tier{topology.Zone, topology.Region}
	if w.opts.Policy.Prefer != nil {
		prefer = slices.Clone(w.opts.Policy.Prefer)
	}
	for _, degraded := range []bool{false, true} {
		for _, tier := range append(prefer, topology.Any) {
			for _, b := range all {
				if b.degraded == degraded && w.matches(tier, b.place) {
					best = append(best, b)
				}
			}
			if len(best) > 0 {
				name = map[topology.Tier]string{topology.Cluster: "cluster", topology.Zone: "zone", topology.Region: "region", topology.Any: "any"}[tier]
				if degraded {
					name = "degraded " + name
				}
				return best, name
			}
		}
	}
	return nil, ""
}

// matches reports whether a place is as near as a tier asks. What is unknown matches nothing.
func (w *world) matches(t topology.Tier, at topology.Location) bool {
	me := w.opts.Self
	switch t {
	case topology.Cluster:
		return me.Cluster == at.Cluster && me.Cluster != ""
	case topology.Zone:
		contradicted := me.Region != "" && at.Region != "" && me.Region != at.Region
		return me.Zone == at.Zone && me.Zone != "" && !contradicted
	case topology.Region:
		return me.Region == at.Region && me.Region != ""
	default:
		return true
	}
}

// setPorts points the named ports at the service's own name.
func (f *facts) setPorts(declared []Port) {
	for _, p := range declared {
		if p.Name != "" {
			f.addTarget(p, fmt.Sprintf("*:%d", p.Number))
		}
	}
	f.setUnion()
}

// setHeadlessPort points a named port at the best of the endpoints that have it.
func (f *facts) setHeadlessPort(w *world, p Port, inside []backend) {
	if p.Name == "" || f.ports[portText(p)] != nil {
		return
	}
	f.ports[portText(p)] = []string{}
	var having []backend
	for _, b := range inside {
		if b.port(p) != 0 {
			having = append(having, b)
		}
	}
	best, _ := w.best(having)
	for _, b := range best {
		host := b.host
		if host == "" {
			host = "*"
		}
		f.addTarget(p, fmt.Sprintf("%s:%d", host, b.port(p)))
	}
}

// setClusterPorts points the ports of a ClusterIP service at the service's own name, where all clusters behind it offer them at one
// number, and else at the best of the clusters that have them.
func (w *world) setClusterPorts(f *facts, id ObjectID, g *GlobalService) {
	f.ports, f.union = map[string][]string{}, nil
	var inside []backend
	for _, b := range w.backends(id, g.Groups) {
		if w.matches(w.opts.Policy.Boundary, b.place) {
			inside = append(inside, b)
		}
	}
	served, tier := w.best(inside)
	set := func(p Port) {
		if p.Name == "" || f.ports[portText(p)] != nil {
			return
		}
		f.ports[portText(p)] = []string{}
		var having []backend
		numbers := map[uint16]bool{}
		for _, b := range inside {
			if b.port(p) != 0 {
				having = append(having, b)
			}
		}
		best, its := w.best(having)
		for _, b := range best {
			numbers[b.port(p)] = true
		}
		for _, b := range best {
			host := b.place.Cluster
			if its == tier && len(best) == len(served) && len(numbers) == 1 || host == "" || w.tooLong(id, host) {
				host = "*"
			}
			f.addTarget(p, fmt.Sprintf("%s:%d", host, b.port(p)))
		}
	}
	for _, p := range g.Ports {
		set(p)
	}
	for _, b := range inside {
		for _, p := range b.declaredPorts {
			set(p)
		}
	}
	f.setUnion()
}

// tooLong reports whether a cluster's name in front of a service's would be no DNS name.
func (w *world) tooLong(id ObjectID, cluster string) bool {
	return len(strings.Join([]string{cluster, id.Name, id.Namespace, "svc", strings.Repeat("z", w.opts.LongestZone)}, ".")) > 254
}

func (b backend) port(p Port) uint16 {
	for _, q := range b.declaredPorts {
		if q.Name == p.Name && q.Protocol == p.Protocol {
			return q.Number
		}
	}
	return 0
}

func portText(p Port) string { return p.Name + "/" + p.Protocol.String() }

func (f *facts) addTarget(p Port, target string) {
	f.ports[portText(p)] = sortedTexts(append(f.ports[portText(p)], target))
}

func (f *facts) setUnion() {
	for _, targets := range f.ports {
		f.union = sortedTexts(append(f.union, targets...))
	}
}

func addrsOf(all []backend, fit ...func(backend) bool) []string {
	var addrs []netip.Addr
	for _, b := range all {
		if len(fit) == 0 || fit[0](b) {
			addrs = append(addrs, b.addr)
		}
	}
	return addrTexts(addrs)
}

// addrTexts lists addresses as they are to be answered: IPv4 first, in order, once each.
func addrTexts(addrs []netip.Addr) []string {
	addrs = slices.Clone(addrs)
	slices.SortFunc(addrs, func(a, b netip.Addr) int { return a.Compare(b) })
	var texts []string
	for _, v6 := range []bool{false, true} {
		for _, a := range slices.Compact(addrs) {
			if a.Is6() == v6 {
				texts = append(texts, a.String())
			}
		}
	}
	return texts
}

func sortedTexts(s []string) []string {
	slices.Sort(s)
	return slices.Compact(s)
}
