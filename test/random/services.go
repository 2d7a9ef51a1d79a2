package random

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

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
