package index

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/clusterset/clusterset/internal/topology"
	"github.com/clusterset/clusterset/test/rank"
)

// backend is an endpoint with everything that affects its rank.
type backend struct {
	rank.Endpoint
	host          string // "<hostname>.<cluster>", or empty if the endpoint can't have a name
	declaredPorts []Port
}

// ranked returns the facts of a service whose endpoints are ranked, by the rules of docs/spec/answers.md from A5 on.
func (w *world) ranked(id ObjectID, stated *topology.Policy, headless bool, declared []Port, groups []Group, global bool) facts {
	f := facts{exists: true, headless: headless, hosts: map[string][]string{}, clusters: map[string][]string{}, ports: map[string][]string{}}
	p := w.policy(stated)
	var inside []backend
	for _, b := range w.backends(id, stated, headless, groups) {
		f.live = true
		if w.matches(p.Boundary, b) {
			inside = append(inside, b)
		}
	}
	var here []backend
	for _, b := range inside {
		if headless || !global || !b.elsewhere(declared) {
			here = append(here, b)
		}
	}
	best, tier := w.best(p, here)
	f.tier, f.addrs = tier, addrsOf(best)
	for _, b := range inside {
		if c := b.Cluster; c != "" {
			f.clusters[c] = addrsOf(inside, func(o backend) bool { return o.Cluster == c })
		}
		if headless && b.host != "" {
			f.hosts[b.host] = addrsOf(inside, func(o backend) bool { return o.host == b.host })
		}
	}
	if !headless {
		f.setPorts(declared)
		return f
	}
	f.setHeadlessPorts(w, p, declared, inside)
	f.zones = map[string]string{}
	for _, zone := range zonesAskedFor {
		f.zones[zone+".pin"] = w.from(zone, p, declared, inside, true)
		f.zones[zone+".prefer"] = w.from(zone, p, declared, inside, false)
	}
	return f
}

// zonesAskedFor are the zones in front of services. No object has the last one.
var zonesAskedFor = []string{"z1", "z2", "no.where"}

// from describes the addresses and SRV targets that a headless service has for clients in a zone (A38, A39).
func (w *world) from(zone string, p topology.Policy, declared []Port, inside []backend, pin bool) string {
	there := *w
	there.opts.Self.Zone, there.opts.Self.Region = zone, w.regionOf(zone)
	if pin {
		inside = slices.DeleteFunc(slices.Clone(inside), func(b backend) bool { return !there.matches(topology.Zone, b) })
	}
	p.Prefer = []topology.Tier{topology.Zone, topology.Region}
	f := facts{ports: map[string][]string{}}
	best, _ := there.best(p, inside)
	f.setHeadlessPorts(&there, p, declared, inside)
	return fmt.Sprint(addrsOf(best), f.union)
}

// regionOf returns the region of a zone (A38).
func (w *world) regionOf(zone string) string {
	var regions []string
	for _, o := range w.objects[KindMemberCluster] {
		if c := o.(*Cluster); slices.Contains(c.Zones, zone) {
			regions = append(regions, c.Region)
		}
	}
	regions = sortedTexts(regions)
	switch {
	case zone == w.opts.Self.Zone, slices.Contains(regions, w.opts.Self.Region):
		return w.opts.Self.Region
	case len(regions) == 1:
		return regions[0]
	}
	return ""
}

// policy returns a service's policy (A32). Each field is what the service states, or else the server's configuration, or else the default.
func (w *world) policy(stated *topology.Policy) topology.Policy {
	p := topology.Policy{Prefer: []topology.Tier{topology.Zone, topology.Region}, MinReady: 1}
	for _, more := range []*topology.Policy{&w.opts.Policy, stated} {
		if more == nil {
			continue
		}
		if more.Prefer != nil {
			p.Prefer = more.Prefer
		}
		if more.Boundary != topology.Any {
			p.Boundary = more.Boundary
		}
		if more.MinReady != 0 {
			p.MinReady = more.MinReady
		}
	}
	return p
}

// backends lists the ready endpoints of clusters that aren't Expired. A cluster is never Expired for itself (A21, A24). Their
// locations follow A27, their counts A31, and their cluster's share A80.
func (w *world) backends(id ObjectID, stated *topology.Policy, headless bool, groups []Group) []backend {
	var all []backend
	spare := spareOf(stated, groups)
	for _, g := range groups {
		c := Cluster{}
		if known := w.objects[KindMemberCluster][ObjectID{Name: g.Cluster}]; known != nil {
			c = *known.(*Cluster)
		}
		own := g.Cluster != "" && g.Cluster == w.opts.Self.Cluster
		for _, e := range g.Endpoints {
			if !e.Ready || c.Phase == topology.Expired && !own {
				continue
			}
			b := backend{declaredPorts: g.Ports, Endpoint: rank.Endpoint{
				Addr: e.Addr, Cluster: g.Cluster, Region: cmp.Or(g.Region, c.Region), Zones: c.Zones, Behind: 1, ClusterIP: !headless,
				Drained: c.Drain, Suspect: c.Phase == topology.Suspect, Expired: c.Phase == topology.Expired,
			}}
			for _, r := range w.objects[KindReachability] {
				// What is known of the way to a cluster without a MemberCluster counts as little as its phase.
				b.Unreachable = b.Unreachable || c.Name != "" && slices.Contains(r.(*Reachability).Unreachable, c.Name)
			}
			if e.Zone != "" {
				b.Zones = []string{e.Zone}
			}
			if percent, below := sharesOf(stated)[g.Cluster]; below {
				b.Spare = percent == 0 || headless && spare[g.Cluster][e.Addr]
			}
			if !headless {
				b.Behind = max(1, w.readyIn(id, g.Cluster, false), w.readyIn(id, g.Cluster, true))
			}
			b.host = w.hostOf(id, e, g.Cluster)
			all = append(all, b)
		}
	}
	return all
}

func sharesOf(stated *topology.Policy) map[string]int {
	if stated == nil {
		return nil
	}
	return stated.Shares
}

// spareOf returns the addresses beyond the shares of the clusters that state one.
func spareOf(stated *topology.Policy, groups []Group) map[string]map[netip.Addr]bool {
	spare := map[string]map[netip.Addr]bool{}
	for cluster, percent := range sharesOf(stated) {
		var ready []netip.Addr
		for _, g := range groups {
			for _, e := range g.Endpoints {
				if g.Cluster == cluster && e.Ready {
					ready = append(ready, e.Addr)
				}
			}
		}
		spare[cluster] = rank.Spare(percent, ready)
	}
	return spare
}

// readyIn counts a service's ready addresses of one family in a cluster's EndpointSlices.
func (w *world) readyIn(id ObjectID, cluster string, v4 bool) int {
	ready := map[netip.Addr]bool{}
	for _, slice := range w.slicesOf(id) {
		for _, e := range slice.Endpoints {
			if slice.Cluster == cluster && e.Ready && e.Addr.Is4() == v4 {
				ready[e.Addr] = true
			}
		}
	}
	return len(ready)
}

// hostOf returns the endpoint's name in front of the service's (A6), or "" if it would be too long in one of the zones (A9; RFC 1035: 255
// octets, which are 254 characters with the final dot).
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

// best returns the backends in use, and their last tier. All of them are within the boundary already.
func (w *world) best(p topology.Policy, all []backend) (best []backend, tier string) {
	endpoints := make([]rank.Endpoint, len(all))
	for i, b := range all {
		endpoints[i] = b.Endpoint
	}
	used, tier := rank.Server(w.opts.Self).Best(rank.PolicyOf(p.Prefer, topology.Any, p.MinReady), false, endpoints)
	for i, b := range all {
		if used[i] {
			best = append(best, b)
		}
	}
	return best, tier
}

// matches reports whether a backend is as near as the tier requires.
func (w *world) matches(t topology.Tier, at backend) bool {
	return rank.Server(w.opts.Self).Near(t.String(), at.Endpoint)
}

// setPorts points the named ports at the service's own name (A40, A42).
func (f *facts) setPorts(declared []Port) {
	for _, p := range declared {
		if p.Name != "" {
			f.addTarget(p, fmt.Sprintf("*:%d", p.Number))
		}
	}
	f.setUnion()
}

// setHeadlessPorts sets the service's ports, and those of its endpoints (A40).
func (f *facts) setHeadlessPorts(w *world, policy topology.Policy, declared []Port, inside []backend) {
	for _, port := range declared {
		f.setHeadlessPort(w, policy, port, inside)
	}
	for _, b := range inside {
		for _, port := range b.declaredPorts {
			f.setHeadlessPort(w, policy, port, inside)
		}
	}
	f.setUnion()
}

// setHeadlessPort points a named port at the best of the endpoints that have the port (A43, A44).
func (f *facts) setHeadlessPort(w *world, policy topology.Policy, p Port, inside []backend) {
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
	best, _ := w.best(policy, having)
	for _, b := range best {
		host := b.host
		if host == "" {
			host = "*"
		}
		f.addTarget(p, fmt.Sprintf("%s:%d", host, b.port(p)))
	}
}

// setClusterPorts sets the ports of a ClusterIP service (A45). A port points at the service's own name if all clusters behind that name
// have the port, with one number, or if no cluster within the boundary has it. Otherwise it points at the best of the clusters that have
// it.
func (w *world) setClusterPorts(f *facts, id ObjectID, g *GlobalService) {
	f.ports, f.union = map[string][]string{}, nil
	policy := w.policy(g.Policy)
	var inside []backend
	for _, b := range w.backends(id, g.Policy, false, g.Groups) {
		if w.matches(policy.Boundary, b) {
			inside = append(inside, b)
		}
	}
	var unchanged []backend
	for _, b := range inside {
		if !b.elsewhere(g.Ports) {
			unchanged = append(unchanged, b)
		}
	}
	served, tier := w.best(policy, unchanged)
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
		best, its := w.best(policy, having)
		changed := false
		for _, b := range best {
			numbers[b.port(p)] = true
			changed = changed || b.elsewhere(g.Ports)
		}
		for _, b := range best {
			host := b.Cluster
			if b.elsewhere(g.Ports) && (host == "" || w.tooLong(id, host)) {
				continue
			}
			if !changed && its == tier && len(best) == len(served) && len(numbers) == 1 || host == "" || w.tooLong(id, host) {
				host = "*"
			}
			f.addTarget(p, fmt.Sprintf("%s:%d", host, b.port(p)))
		}
		if len(best) == 0 && (len(served) > 0 || len(inside) == 0) {
			f.addTarget(p, fmt.Sprintf("*:%d", p.Number))
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

// tooLong reports whether the cluster's name in front of the service's is too long for a DNS name (A9).
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

// elsewhere reports whether a port of the service has another number there (A37).
func (b backend) elsewhere(service []Port) bool {
	for _, q := range b.declaredPorts {
		has, same := false, false
		for _, s := range service {
			if s.Name == q.Name && s.Protocol == q.Protocol {
				has, same = true, same || s.Number == q.Number
			}
		}
		if has && !same {
			return true
		}
	}
	return false
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
			addrs = append(addrs, b.Addr)
		}
	}
	return addrTexts(addrs)
}

// addrTexts returns addresses in the form that an answer should have: IPv4 first, sorted, without duplicates (A35).
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
