package random

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterset/clusterset/test/fleet"
	"github.com/clusterset/clusterset/test/rank"
)

// Zone is a zone as one server must serve it, record by record. The answer for a name without records follows from the
// names around it, as in any zone. The rules are in docs/spec/answers.md; see also oracle.go.
type Zone struct {
	origin string
	global bool
	at     fleet.Location
	member *View
	Names  map[string]map[string][]string // name, type, data
}

// Zone returns the zone that a server must serve.
func (w *World) Zone(origin string, s Server) *Zone {
	z := &Zone{origin: origin, global: origin == "global", at: s.At, Names: map[string]map[string][]string{}}
	for _, c := range w.Clusters {
		if c.Name == s.Member.Spec.Name {
			z.member = c
		}
	}
	for _, key := range w.Keys() {
		if parts := w.visible(z.member, key); len(parts) > 0 && z.member.namespaces[key.Namespace] { // C30
			z.service(key, parts)
		}
	}
	return z
}

// Answer returns the expected answer to a question (A16, A17).
func (z *Zone) Answer(name, qtype string) string {
	if records, ok := z.Names[name]; ok {
		if len(records[qtype]) == 0 {
			return "NODATA"
		}
		return answerText(records[qtype], z.additional(records[qtype], qtype))
	}
	for other := range z.Names {
		if strings.HasSuffix(other, "."+name) {
			return "NODATA" // an empty non-terminal
		}
	}
	return "NXDOMAIN"
}

// additional returns the addresses of the targets of SRV records (A47).
func (z *Zone) additional(data []string, qtype string) []string {
	var all []string
	if qtype != "SRV" {
		return nil
	}
	for _, d := range data {
		fields := strings.Fields(d)
		target := fields[len(fields)-1]
		for _, family := range []string{"A", "AAAA"} {
			for _, a := range z.Names[strings.TrimSuffix(target, ".")][family] {
				all = append(all, target+" "+family+" "+a)
			}
		}
	}
	return all
}

// answerText formats an answer and its additional section. Order and duplicates make no difference.
func answerText(answer, additional []string) string {
	text := strings.Join(sortedSet(answer), ", ")
	if len(additional) > 0 {
		text += " with " + strings.Join(sortedSet(additional), ", ")
	}
	return text
}

func sortedSet(s []string) []string { return slices.Compact(slices.Sorted(slices.Values(s))) }

// exists makes a name exist, even without records.
func (z *Zone) exists(name string) {
	if z.Names[name] == nil {
		z.Names[name] = map[string][]string{}
	}
}

func (z *Zone) add(name, rrtype, data string) {
	z.exists(name)
	if !slices.Contains(z.Names[name][rrtype], data) {
		z.Names[name][rrtype] = append(z.Names[name][rrtype], data)
	}
}

func (z *Zone) addAddress(name, address string) {
	addr := netip.MustParseAddr(address)
	if addr.Is4() {
		z.add(name, "A", addr.String())
	} else {
		z.add(name, "AAAA", addr.String())
	}
}

// srvTarget is the target of an SRV record.
type srvTarget struct {
	port int32
	name string
}

// addSRV adds SRV records of equal weight (A41).
func (z *Zone) addSRV(name string, targets map[srvTarget]bool) {
	z.exists(name)
	for t := range targets {
		z.add(name, "SRV", fmt.Sprintf("0 %d %d %s.", max(1, 100/len(targets)), t.port, t.name))
	}
}

// service writes one service's records, by the rules of docs/spec/answers.md and docs/spec/control-plane.md.
func (z *Zone) service(key types.NamespacedName, parts []Part) {
	name := fmt.Sprintf("%s.%s.svc.%s", key.Name, key.Namespace, z.origin)
	z.exists(fmt.Sprintf("%s.svc.%s", key.Namespace, z.origin)) // A13
	ports := mergedPorts(parts)
	if parts[0].headless() {
		z.headless(name, ports, parts)
		return
	}
	if !z.global {
		if ips := z.clusterSetIPs(key, parts); len(ips) > 0 {
			for _, ip := range ips {
				z.addAddress(name, ip)
			}
			z.servicePorts(name, ports)
			return
		} // A4
	}
	z.clusterIPs(name, ports, parts)
}

// clusterSetIPs returns the derived Service's addresses, of the oldest export's families that this cluster has (A20, C15, C31).
func (z *Zone) clusterSetIPs(key types.NamespacedName, parts []Part) []string {
	var ips []string
	for _, f := range parts[0].service.Spec.IPFamilies {
		if f == corev1.IPv6Protocol && !z.member.DualStack {
			continue
		}
		found := "0.0.0.0" // no server answers this, so the check waits until the address exists
		if f == corev1.IPv6Protocol {
			found = "::"
		}
		if derived := z.member.derived[key]; derived != nil {
			for _, ip := range derived.Spec.ClusterIPs {
				if addr, err := netip.ParseAddr(ip); err == nil && addr.Is4() == (f == corev1.IPv4Protocol) {
					found = ip
				}
			}
		}
		ips = append(ips, found)
	}
	return ips
}

// servicePorts writes the SRV records of a service with its own addresses. They point to the service's name (A40, A42).
func (z *Zone) servicePorts(name string, ports []mergedPort) {
	all := map[srvTarget]bool{}
	for _, p := range ports {
		if p.name != "" {
			all[srvTarget{p.number, name}] = true
			z.addSRV(p.label()+"."+name, map[srvTarget]bool{{p.number, name}: true})
		}
	}
	z.addSRV(name, all)
}

// clusterIPs writes a service whose addresses are the ClusterIPs of the best tier's exporters (A34).
func (z *Zone) clusterIPs(name string, ports []mergedPort, parts []Part) {
	var all []backend
	for _, p := range parts {
		if p.headless() || len(ports) > 0 && !slices.ContainsFunc(ports, p.has) {
			continue
		}
		if p.apart(z.member) { // D88
			all = append(all, p.externals(ports)...)
			continue
		}
		ready := slices.ContainsFunc(p.backends(nil), func(b backend) bool { return b.ready })
		for _, ip := range p.service.Spec.ClusterIPs {
			all = append(all, backend{part: p, address: ip, zone: p.Zone, ready: ready, stands: true})
		}
	}
	// If any cluster has a ready endpoint, the clusters without one are not answered. That holds even if the only cluster
	// with one is Expired (C34) and therefore isn't answered either (A21).
	if slices.ContainsFunc(all, func(b backend) bool { return b.ready }) {
		all = slices.DeleteFunc(all, func(b backend) bool { return !b.ready })
	}
	all = slices.DeleteFunc(all, func(b backend) bool { return b.part.Expired || b.part.apart(z.member) && !b.ready }) // D83
	z.exists(name)
	for _, b := range z.best(all) {
		z.addAddress(name, b.address)
	}
	if z.global {
		for _, b := range all {
			z.addAddress(b.part.Name+"."+name, b.address)
		}
	}
	z.servicePorts(name, ports)
	if z.global {
		z.clusterPorts(name, ports, all)
	}
	if len(all) == 0 { // A12, A46
		z.withoutRecords(name)
	}
}

// clusterPorts writes the SRV records of ports that only some of the clusters behind a service's name have. It is for the
// zone in which clusters have names: the records point to the best clusters that have the port. A port that no cluster has
// stays at the service's name (A45).
func (z *Zone) clusterPorts(name string, ports []mergedPort, all []backend) {
	behind := len(z.best(all))
	union := map[srvTarget]bool{}
	for _, port := range ports {
		if port.name == "" {
			continue
		}
		lacking := func(b backend) bool { return !b.part.has(port) }
		targets := map[srvTarget]bool{}
		best := z.best(slices.DeleteFunc(slices.Clone(all), lacking))
		if nobody := len(best) == 0; nobody || len(best) == behind && !slices.ContainsFunc(z.best(all), lacking) {
			targets[srvTarget{port.number, name}] = true
		} else {
			for _, b := range best {
				targets[srvTarget{port.number, b.part.Name + "." + name}] = true
			}
		}
		z.Names[port.label()+"."+name] = nil
		z.addSRV(port.label()+"."+name, targets)
		maps.Copy(union, targets)
	}
	delete(z.Names[name], "SRV")
	z.addSRV(name, union)
}

// withoutRecords removes all records of a name and the names below it.
func (z *Zone) withoutRecords(name string) {
	for n := range z.Names {
		if n == name || strings.HasSuffix(n, "."+name) {
			z.Names[n] = map[string][]string{}
		}
	}
}

// headless writes a service whose addresses are its ready endpoints. Without any, its name doesn't exist (A11).
func (z *Zone) headless(name string, ports []mergedPort, parts []Part) {
	var all []backend
	for _, p := range parts {
		if !p.Expired && !p.apart(z.member) { // D86
			all = append(all, p.backends(ports)...)
		}
	}
	all = slices.DeleteFunc(all, func(b backend) bool { return !b.ready })
	if len(all) == 0 {
		return
	}
	for _, b := range z.best(all) {
		z.addAddress(name, b.address)
	}
	for _, b := range all {
		z.addAddress(b.host(name), b.address)
		if z.global {
			z.addAddress(b.part.Name+"."+name, b.address)
		}
	}
	union := map[srvTarget]bool{}
	for _, port := range ports {
		if port.name == "" {
			continue
		}
		// A43, A44
		having := slices.DeleteFunc(slices.Clone(all), func(b backend) bool { return b.ports[port] == 0 })
		targets := map[srvTarget]bool{}
		for _, b := range z.best(having) {
			targets[srvTarget{b.ports[port], b.host(name)}] = true
		}
		z.addSRV(port.label()+"."+name, targets)
		maps.Copy(union, targets)
	}
	z.addSRV(name, union)
}

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
	return cmp.Or(b.hostname, labelOf(b.address)) + "." + b.part.Name + "." + service
}

// labelOf returns the label of an endpoint without a hostname (A6).
func labelOf(address string) string {
	label := strings.NewReplacer(".", "-", ":", "-").Replace(netip.MustParseAddr(address).String())
	if strings.HasSuffix(label, "-") {
		label += "0"
	}
	if strings.HasPrefix(label, "-") {
		label = "0" + label
	}
	return label
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

// best returns the backends of the best tier by the default policy, with drained clusters and what is beyond a share (A80) last, and those that this
// cluster can't reach (D40).
func (z *Zone) best(all []backend) (best []backend) {
	endpoints := make([]rank.Endpoint, len(all))
	for i, b := range all {
		service := b.stands || b.part.apart(z.member)
		endpoints[i] = rank.Endpoint{
			Addr: netip.MustParseAddr(b.address), Cluster: b.part.Name, Zones: []string{b.zone}, Region: b.part.Region, ClusterIP: b.stands,
			Drained: b.part.Drained, Unreachable: z.member.Unreachable[b.part.Name],
			Spare: b.part.share == 0 || !service && b.part.spare()[netip.MustParseAddr(b.address)],
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
