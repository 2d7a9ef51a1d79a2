package index

import (
	"cmp"
	"slices"
	"strings"

	"github.com/clusterset/clusterset/internal/topology"
)

// maxPorts is how many named ports of a service are served. Ports that the service itself declares come before those that only
// endpoints have. A cluster's Service has at most 100 (api.MaxPorts), and clusters seldom disagree. Without a limit, each of
// thousands of EndpointSlices could add its own.
const maxPorts = 256

// servicePorts points each named port to the service's own name. all is the union of their targets.
func servicePorts(declared []Port) (ports []PortTargets, all Targets) {
	first := named(declared)
	named := uniq(first[:min(len(first), maxPorts)], comparePorts)
	ports = make([]PortTargets, 0, len(named))
	b := targetBuilder{}
	var numbers []uint16
	for i := 0; i < len(named); {
		from := i
		for ; i < len(named) && named[i].Name == named[from].Name && named[i].Protocol == named[from].Protocol; i++ {
			numbers = append(numbers, named[i].Number)
		}
		b.add(ServiceItself, numbers[len(numbers)-(i-from):]...)
		ports = append(ports, PortTargets{named[from].Name, named[from].Protocol, b.build()})
	}
	b.add(ServiceItself, sortedNumbers(numbers)...)
	return slices.Clip(ports), b.build()
}

// placed is the part of a candidate that port ranking needs.
type placed struct {
	host, group int32
	rank        topology.Rank
	elsewhere   bool
}

// nowhere reports whether neither a name of its own nor the service's leads to the candidate.
func (p placed) nowhere() bool { return p.elsewhere && p.host == ServiceItself }

// offer is a group's number for a port.
type offer struct {
	group  int32
	number uint16
}

// portRanking finds the endpoints that offer each named port of a headless service: those of the best tier among them, and of the
// next tier if they are too few. That need not be the tier that the addresses came from. If some clusters lack a port, the clusters
// that have it answer.
//
// If a service has addresses of its own, its hosts are clusters. A port then points to the service's own name if all clusters
// behind those addresses, and no others, offer it at the same number, or if the service declares it and no cluster lists it: which of the
// two is wrong can't be known here.
//
// The time is proportional to ports times candidates, in a loop of a few instructions: names are looked up once per group, and
// everything is sorted once.
type portRanking struct {
	view       *topology.View
	candidates []candidate
	byHost     []placed // the candidates in order of their hosts
	groups     []*Group
	groupOf    []int32         // of each candidate
	best       []topology.Rank // the best in each group
	ports      map[Port]int
	declared   []uint16        // of each port, the service's own number, or 0
	offers     [][]offer       // of each port
	ranks      []topology.Rank // of each port, the last in use
	itself     []uint16        // of each port, the number at the service's own name, or 0
	build      targetBuilder
	// own is set if the service has addresses of its own. serviceRank is the rank of the last of them, and behind is the number of
	// candidates up to that rank: 0 for a headless service.
	own         bool
	serviceRank topology.Rank
	behind      int
}

// hostPorts ranks the candidates for each named port. own is set if the service has addresses of its own, with ranks up to last.
func hostPorts(v *topology.View, declared []Port, candidates []candidate, weights []uint8, own bool, last topology.Rank) (ports []PortTargets, all Targets) {
	r := &portRanking{view: v, candidates: candidates, ports: map[Port]int{}, build: targetBuilder{weights: weights}, own: own, serviceRank: last}
	r.readGroups()
	for i := range candidates {
		if own && candidates[i].rank <= last && !candidates[i].elsewhere {
			r.behind++
		}
	}
	for _, p := range declared {
		if at := r.port(p); at >= len(r.declared) {
			r.declared = append(r.declared, p.Number)
		}
	}
	for i, g := range r.groups {
		for _, p := range g.Ports {
			at := r.port(p)
			if at < 0 || len(r.offers[at]) > 0 && r.offers[at][len(r.offers[at])-1].group == int32(i) { //nolint:gosec // few groups
				continue // unnamed, or already in the group
			}
			r.offers[at] = append(r.offers[at], offer{int32(i), p.Number}) //nolint:gosec // few groups
		}
	}
	r.ranks, r.itself = make([]topology.Rank, len(r.offers)), make([]uint16, len(r.offers))
	ports = make([]PortTargets, 0, len(r.ports))
	for p, at := range r.ports {
		ports = append(ports, PortTargets{Name: p.Name, Protocol: p.Protocol, Targets: Targets{n: int32(at)}}) //nolint:gosec // below maxPorts
	}
	slices.SortFunc(ports, func(a, b PortTargets) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), cmp.Compare(a.Protocol, b.Protocol))
	})
	numbers := make([]uint16, len(r.groups)) // of the port at hand
	for i := range ports {
		ports[i].Targets = r.targets(int(ports[i].Targets.n), numbers)
	}
	if len(ports) == 1 {
		return ports, ports[0].Targets
	}
	return ports, r.all()
}

// readGroups numbers the groups and puts the candidates in order of their hosts.
func (r *portRanking) readGroups() {
	r.groupOf, r.byHost = make([]int32, len(r.candidates)), make([]placed, len(r.candidates))
	for i := range r.candidates {
		c := &r.candidates[i]
		if i == 0 || c.group != r.candidates[i-1].group {
			r.groups, r.best = append(r.groups, c.group), append(r.best, c.rank)
		}
		at := len(r.groups) - 1
		r.best[at] = min(r.best[at], c.rank)
		r.groupOf[i] = int32(at) //nolint:gosec // at most some thousand endpoints
		r.byHost[i] = placed{c.host, r.groupOf[i], c.rank, c.elsewhere}
	}
	slices.SortStableFunc(r.byHost, func(a, b placed) int { return cmp.Compare(a.host, b.host) })
}

// port returns the number under which a named port is known, or -1.
func (r *portRanking) port(p Port) int {
	if p.Name == "" {
		return -1
	}
	p.Number = 0 // endpoints may have different numbers
	at, ok := r.ports[p]
	switch {
	case ok:
		return at
	case len(r.ports) == maxPorts:
		return -1
	}
	r.ports[p] = len(r.offers)
	r.offers = append(r.offers, nil)
	return len(r.offers) - 1
}

// targets returns the targets that offer a port. numbers has an element per group; all are 0 before and after the call.
func (r *portRanking) targets(port int, numbers []uint16) Targets {
	if r.own && len(r.offers[port]) == 0 && r.behind == 0 && len(r.candidates) > 0 {
		return Targets{} // the service's own name has no address
	}
	if r.own && len(r.offers[port]) == 0 {
		r.itself[port] = r.declared[port]
		return Targets{n: 1, number: r.itself[port]}
	}
	last := topology.Gone
	for _, o := range r.offers[port] {
		numbers[o.group] = o.number
		last = min(last, r.best[o.group])
	}
	if r.view.Policy.MinReady > 1 {
		last = lastOf(r.view, r.candidates, func(i int) bool { return numbers[r.groupOf[i]] != 0 })
	}
	r.ranks[port] = last
	found, one, elsewhere := 0, uint16(0), false
	for _, p := range r.byHost {
		n := numbers[p.group]
		if n == 0 || p.rank > last || p.nowhere() {
			continue
		}
		r.build.add(p.host, n)
		elsewhere = elsewhere || p.elsewhere
		switch {
		case found == 0:
			one = n
		case n != one:
			one = 0
		}
		found++
	}
	t := r.build.build()
	if one != 0 && !elsewhere && last == r.serviceRank && found == r.behind {
		r.itself[port] = one
		t = Targets{n: 1, number: one}
	}
	for _, o := range r.offers[port] {
		numbers[o.group] = 0
	}
	return t
}

// all merges the targets of all ports.
func (r *portRanking) all() Targets {
	type key struct {
		group int32
		rank  topology.Rank
	}
	offered := make([][]offer, len(r.groups)) // by group: offer.group is the port's number here
	for port, offers := range r.offers {
		for _, o := range offers {
			offered[o.group] = append(offered[o.group], offer{int32(port), o.number}) //nolint:gosec // below maxPorts
		}
	}
	lists := map[key][]uint16{}
	itself := slices.DeleteFunc(slices.Clone(r.itself), func(n uint16) bool { return n == 0 })
	r.build.add(ServiceItself, sortedNumbers(itself)...)
	for _, p := range r.byHost {
		at := key{p.group, p.rank}
		numbers, ok := lists[at]
		if !ok {
			for _, o := range offered[at.group] {
				if at.rank <= r.ranks[o.group] && r.itself[o.group] == 0 && !p.nowhere() {
					numbers = append(numbers, o.number)
				}
			}
			numbers = sortedNumbers(numbers)
			lists[at] = numbers
		}
		r.build.add(p.host, numbers...)
	}
	return r.build.build()
}

func named(ports []Port) []Port {
	return slices.DeleteFunc(slices.Clone(ports), func(p Port) bool { return p.Name == "" })
}

func comparePorts(a, b Port) int {
	return cmp.Or(strings.Compare(a.Name, b.Name), cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Number, b.Number))
}
