package random

import (
	"cmp"
	"net/netip"
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/clusterset/clusterset/test/rank"
)

// backend is one address with everything that determines its rank.
type backend struct {
	part     Part
	address  string
	zone     string // its own, or its cluster's
	hostname string
	ready    bool
	// stands means that the address is a ClusterIP, which represents the whole cluster.
	stands bool
	ports  map[mergedPort]int32 // the port on which the address listens, for each of the service's ports
}

// host returns the endpoint's own name in a service (A5, A6 of docs/spec/answers.md).
func (b backend) host(service string) string {
	hostname := b.hostname
	if hostname == "" {
		hostname = strings.NewReplacer(".", "-", ":", "-").Replace(netip.MustParseAddr(b.address).String())
		if strings.HasSuffix(hostname, "-") {
			hostname += "0"
		}
		if strings.HasPrefix(hostname, "-") {
			hostname = "0" + hostname
		}
	}
	return hostname + "." + b.part.Name + "." + service
}

// backends returns a part's endpoints, ready or not (C4 of docs/spec/control-plane.md).
func (p Part) backends(ports []mergedPort) []backend {
	var all []backend
	for _, s := range p.slices {
		if s.AddressType == discoveryv1.AddressTypeFQDN {
			continue
		}
		listens := map[mergedPort]int32{}
		for _, port := range ports {
			for _, q := range s.Ports {
				if p.has(port) && deref(q.Name) == port.original && deref(q.Protocol) == port.protocol {
					listens[port] = deref(q.Port)
				}
			}
		}
		for _, e := range s.Endpoints {
			for _, a := range e.Addresses {
				all = append(all, backend{
					part: p, address: a, zone: cmp.Or(deref(e.Zone), p.Zone), hostname: deref(e.Hostname),
					ready: e.Conditions.Ready == nil || *e.Conditions.Ready, ports: listens,
				})
			}
		}
	}
	return all
}

func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// best returns the backends of the best tier by the default policy, with drained clusters last, and those that this cluster can't reach
// (D40).
func (z *Zone) best(all []backend) (best []backend) {
	endpoints := make([]rank.Endpoint, len(all))
	for i, b := range all {
		endpoints[i] = rank.Endpoint{
			Addr: netip.MustParseAddr(b.address), Cluster: b.part.Name, Zones: []string{b.zone}, Region: b.part.Region, ClusterIP: b.stands,
			Drained: b.part.Drained, Unreachable: z.member.Unreachable[b.part.Name],
		}
	}
	used, _ := rank.Server(z.at).Best(rank.Policy{}, false, endpoints)
	for i, b := range all {
		if used[i] {
			best = append(best, b)
		}
	}
	return best
}
