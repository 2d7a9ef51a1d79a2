package random

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/test/fleettest"
)

// Networks: which clusters are in which, and where clusters of other ones reach a service. The rules are in docs/spec/data-path.md.

// externalOf returns the addresses at which clusters of other networks may reach services of a cluster, as they are exported.
func externalOf(cluster int) []string {
	all := []string{netip.MustParseAddr(fmt.Sprintf("fd00:192:%d::1", cluster)).String()}
	for i := range 3 {
		all = append(all, fmt.Sprintf("192.0.2.%d", 16*(cluster+1)+i))
	}
	return all
}

// externalCIDRs are the networks that a cluster may state for them: all, a part, or none.
func externalCIDRs(cluster int) [][]string {
	all, some := fmt.Sprintf("192.0.2.%d/28", 16*(cluster+1)), fmt.Sprintf("192.0.2.%d/31", 16*(cluster+1))
	return [][]string{{all, fmt.Sprintf("fd00:192:%d::/48", cluster)}, {some}, nil}
}

// separate puts every cluster into the network of the setup, with all its external networks, and unite all into one.
func (s *Script) separate() { s.joinNetworks(s.set.networks) }
func (s *Script) unite()    { s.joinNetworks(make([]string, len(s.set.networks))) }

func (s *Script) joinNetworks(networks []string) {
	for cluster, network := range networks {
		s.network(cluster, network, externalCIDRs(cluster)[0])
	}
}

// changeNetwork puts a cluster into another network, or gives it other external networks.
func (s *Script) changeNetwork() {
	cluster := s.IntN(len(s.set.clusters))
	to := append([]string{""}, s.set.networks...)[s.IntN(1+len(s.set.networks))]
	s.network(cluster, to, externalCIDRs(cluster)[max(0, s.IntN(6)-3)])
}

func (s *Script) network(cluster int, network string, external []string) {
	s.add(func(r *Run) error { return r.patchNetwork(cluster, network, external) }, "cluster %d is in network %q with external networks %q", cluster, network, external)
}

func (r *Run) patchNetwork(cluster int, network string, external []string) error {
	return r.patchMember(cluster, map[string]any{"network": network, "externalCIDRs": external})
}

// Apart is the network of a cluster that is put into one of its own.
const Apart = "apart"

// PutInto puts a cluster into a network on the hub, with external networks in which all its external addresses are.
func (r *Run) PutInto(cluster int, network string) error {
	return r.patchNetwork(cluster, network, externalCIDRs(cluster)[0])
}

// PutInto does the same in a View.
func (c *View) PutInto(cluster int, network string) {
	c.Network, c.External = network, externalCIDRs(cluster)[0]
}

// across creates, for each cluster, a service of that cluster and of the first one in another network, which can be reached there. The others of the
// cluster's network prefer the cluster until it is Suspect.
func (s *Script) across() {
	for cluster, network := range s.set.networks {
		other := slices.IndexFunc(s.set.networks, func(n string) bool { return n != network })
		for _, of := range []int{cluster, other} {
			c := cell{place{of, s.Namespaces[0]}, fmt.Sprint("across", cluster)}
			state := &serviceState{kind: "ClusterIP", ports: portSets[0], externalIPs: externalOf(of)[1:2]}
			state.slices[0] = fmt.Sprintf("ports: [{name: http, protocol: TCP, port: 8080}], endpoints: [{addresses: [10.20%d.0.7]}]", of)
			s.place(c, state, true)
		}
	}
}

// newExternal gives a Service external addresses, or none.
func (s *Script) newExternal(c cell, state *serviceState) {
	pool := externalOf(c.cluster)
	s.Shuffle(len(pool), func(i, j int) { pool[i], pool[j] = pool[j], pool[i] })
	state.externalIPs, state.external = nil, nil
	if s.IntN(4) > 0 {
		state.externalIPs = pool[:1+s.IntN(2)]
	}
	if s.IntN(6) == 0 {
		state.external = pool[2 : 3+s.IntN(2)]
	}
}

// apart reports whether a part is another cluster's, of another network (D80).
func (p Part) apart(viewer *View) bool { return p.View != viewer && p.Network != viewer.Network }

// external returns the external addresses that a part states (D90), and those of them that it may have (D93). Nodes have none here.
func (p Part) external() (stated, exported []string) {
	if p.headless() {
		return nil, nil
	}
	for _, a := range p.service.Spec.ExternalIPs {
		if slices.Contains(p.service.Spec.IPFamilies, fleettest.FamilyOf(a)) {
			stated = append(stated, a)
		}
	}
	for _, annotations := range []map[string]string{p.service.Annotations, p.exports[client.ObjectKeyFromObject(p.service)].Annotations} {
		if text, ok := annotations["clusterset.dev/external-addresses"]; ok {
			stated = strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
		}
	}
	for _, a := range stated {
		addr := netip.MustParseAddr(a)
		if len(p.External) == 0 || slices.ContainsFunc(p.External, func(cidr string) bool { return netip.MustParsePrefix(cidr).Contains(addr) }) {
			exported = append(exported, addr.String())
		}
	}
	return stated, exported
}

// externals returns a part's external addresses as backends, as clusters of other networks see them: all ready while an endpoint is (D81 to D83).
func (p Part) externals(ports []mergedPort) []backend {
	_, exported := p.external()
	if len(p.External) == 0 {
		return nil
	}
	ready := slices.ContainsFunc(p.backends(nil), func(b backend) bool { return b.ready })
	at := map[mergedPort]int32{}
	for _, port := range ports {
		if p.has(port) {
			at[port] = port.number
		}
	}
	var all []backend
	for _, a := range exported {
		all = append(all, backend{part: p, address: a, zone: p.Zone, ready: ready, ports: at})
	}
	return all
}
