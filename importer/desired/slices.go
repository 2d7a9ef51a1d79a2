package desired

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/clusterset/clusterset/api"
)

// routed returns the records to whose endpoints kube-proxy sends a VIP's traffic, among them the clusters' ClusterIPs, and the others.
func (w *work) routed() (routed, others []*record) {
	routed = make([]*record, 0, len(w.records))
	for _, r := range w.records {
		if w.routes(r.cluster) {
			routed = append(routed, r)
		} else {
			others = append(others, r)
		}
	}
	if w.hasVIP() && w.in.DataPath == DataPathClusterIPs {
		routed = append(routed, w.clusterIPs()...)
	}
	return routed, others
}

// endpointSlices returns the EndpointSlices, sorted by name: one for each ExportedEndpoints, so that a change in one cluster's slice
// is a change in one slice here, or an empty one for a cluster that has none; and with --data-path=clusterips also one for each cluster and family that holds its ClusterIP. If
// kube-proxy is to use only some of a slice's endpoints, or use them differently for different ports, the slice is split into pieces.
//
// If kube-proxy sends a VIP's traffic to pods, the slices that DNS and gateways find by the MCS labels also have the derived
// Service's name. A second set with the same content would double what etcd stores and every node watches. The slices that are not
// for kube-proxy have LabelHeadless: kube-proxy watches all others.
func (w *work) endpointSlices(routed, others []*record) []*discoveryv1.EndpointSlice {
	all := make([]*discoveryv1.EndpointSlice, 0, len(routed)+len(others))
	for _, r := range others {
		slice := w.whole(r)
		w.unroute(slice)
		all = append(all, slice)
	}
	choices := w.choices(routed)
	for _, r := range routed {
		all = append(all, w.split(r, choices)...)
	}
	all = append(all, w.placeholders()...)
	slices.SortFunc(all, func(a, b *discoveryv1.EndpointSlice) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// routes reports whether kube-proxy sends a VIP's traffic to a cluster's endpoints.
func (w *work) routes(c *cluster) bool {
	return w.hasVIP() && (w.in.DataPath == DataPathPods || w.in.DataPath == DataPathClusterIPs && (c.own != nil || c.apart))
}

// whole returns a record's slice, before it is decided how kube-proxy uses it.
func (w *work) whole(r *record) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{ObjectMeta: w.objectMeta(r.slice), AddressType: r.family, Ports: r.ports, Endpoints: r.endpoints}
	s.Labels[api.LabelSourceCluster] = r.cluster.name
	s.Labels[api.LabelEndpointSliceManagedBy] = api.EndpointSliceManagedBy
	if !r.clusterIP {
		s.Labels[api.LabelServiceName] = w.in.Key.Name
		s.Annotations = r.stored()
	}
	return s
}

// unroute hides a slice from kube-proxy: the label excludes it from its watch. It doesn't lead to a Service either.
func (w *work) unroute(s *discoveryv1.EndpointSlice) {
	s.Labels[api.LabelKubernetesServiceName] = api.UnusedServiceName(w.in.Key.Namespace, w.in.Key.Name)
	s.Labels[corev1.IsHeadlessService] = ""
}

// clusterIPs returns the exporting Services' ClusterIPs as if they were records of endpoints. Their slices have no MCS service name,
// because readers that find slices by it expect backends. A cluster that exports a Headless Service, and lost the conflict, has no
// ClusterIP and gets no traffic. A ClusterIP whose cluster has no ready endpoint, or none of its family, while another has, isn't ready.
func (w *work) clusterIPs() (all []*record) {
	for _, c := range w.clusters {
		if c.own != nil {
			continue // its own ClusterIP behind the ClusterSetIP would need a second translation, but a connection is translated only once
		}
		for _, ip := range c.ips {
			all = append(all, w.clusterIPRecord(c, ip, !w.without(c) && !w.lacks(c, discoveryv1.AddressType(familyOf(ip)))))
		}
	}
	return all
}

// lacks reports whether the cluster has no ready endpoint of a family while another cluster behind the ClusterSetIP has one.
func (w *work) lacks(c *cluster, family discoveryv1.AddressType) bool {
	return c.ready[family] == 0 && slices.ContainsFunc(w.clusters, func(o *cluster) bool {
		of := func(ip string) bool { return discoveryv1.AddressType(familyOf(ip)) == family }
		return o.ready[family] > 0 && (w.routes(o) || slices.ContainsFunc(o.ips, of))
	})
}

// SliceName returns the name of the EndpointSlice for a record, or for another origin.
func SliceName(cluster, service, origin string) string {
	// The hash has cluster and service too: where a name has dashes, "a-b-c" doesn't say which ends where.
	sum := sha256.Sum256([]byte(cluster + "/" + service + "/" + origin))
	return api.ImportedSlicePrefix + cluster + "-" + service + "-" + hex.EncodeToString(sum[:8])
}

// without reports whether the cluster has no ready endpoint while another cluster has one that its ClusterIP, or external addresses, lead to: then
// traffic to this cluster's ClusterIP would be dropped or rejected. If no cluster has a ready endpoint, or none reports any, there is nothing
// to choose.
func (w *work) without(c *cluster) bool {
	return !c.anyReady() && slices.ContainsFunc(w.clusters, func(c *cluster) bool { return c.anyReady() && (c.apart && w.exposesAny(c) || w.offersClusterIP(c)) })
}

// offersClusterIP reports whether the cluster has a usable ClusterIP for the service. A Headless Service that lost the conflict
// doesn't, and neither does a cluster whose port has another meaning: a client of svc:80 must not reach something else.
func (w *work) offersClusterIP(c *cluster) bool { return len(c.ips) > 0 && w.exposesAny(c) }

// exposesAny reports whether the cluster exposes a port of the service, if it has any.
func (w *work) exposesAny(c *cluster) bool { return len(w.resolved.Ports) == 0 || len(c.ports) > 0 }

// split returns the slice of a record, labelled and hinted for kube-proxy, in pieces.
//
// kube-proxy chooses separately for each port and family, among the endpoints of all slices that have the port. But the label applies to a whole
// slice, and an endpoint's hints to all ports of its slice. If ports or endpoints need different ones, the slice is split into pieces.
func (w *work) split(r *record, choices map[portKey]*choice) []*discoveryv1.EndpointSlice {
	s := w.whole(r)
	var groups [][]discoveryv1.EndpointPort // of ports for which the endpoints are used alike
	var uses [][]use
	usesOf := map[*choice][]use{}
	for i, port := range s.Ports {
		c := choices[keyOf(r.family, &s.Ports[i])]
		u := usesOf[c]
		if u == nil {
			u = w.uses(r.targets, c)
			usesOf[c] = u
		}
		g := slices.IndexFunc(uses, func(have []use) bool { return slices.EqualFunc(have, u, use.equal) })
		switch {
		case g < 0 && len(groups) < api.MaxPieces:
			g, groups, uses = len(groups), append(groups, nil), append(uses, u)
		case g < 0:
			g = api.MaxPieces - 1
			uses[g] = united(uses[g], u)
		}
		groups[g] = append(groups[g], port)
	}
	if len(groups) == 0 { // no port that the service has: nothing for kube-proxy
		w.unroute(s)
		return []*discoveryv1.EndpointSlice{s}
	}
	var out []*discoveryv1.EndpointSlice
	for g := range groups {
		out = append(out, w.pieces(s, g, groups[g], uses[g])...)
	}
	return out
}

// united returns how endpoints are used by ports that share a slice although they use them differently: each that one of the ports needs is
// routed, without hints. Every group of ports has all endpoints, so that a record of many ports could take a hundred times its room.
func united(a, b []use) []use {
	all := make([]use, len(a))
	for i := range all {
		all[i].routed = a[i].routed || b[i].routed
	}
	return all
}

// choices returns the choices by port. Ports with the same records share one choice.
func (w *work) choices(records []*record) map[portKey]*choice {
	having := map[portKey]*choice{}
	for _, r := range records {
		for i := range r.ports {
			key := keyOf(r.family, &r.ports[i])
			if having[key] == nil {
				having[key] = &choice{among: make([]*record, 0, len(records))}
			}
			having[key].among = append(having[key].among, r)
		}
	}
	var different []*choice
	for key, c := range having {
		if i := slices.IndexFunc(different, func(o *choice) bool { return slices.Equal(o.among, c.among) }); i >= 0 {
			having[key] = different[i]
			continue
		}
		different = append(different, c)
		c.decide(w)
	}
	return having
}

// pieces returns the slices for some ports of a slice: one with the endpoints that kube-proxy is to use, and one with the others, for other readers.
func (w *work) pieces(s *discoveryv1.EndpointSlice, group int, ports []discoveryv1.EndpointPort, uses []use) (all []*discoveryv1.EndpointSlice) {
	routed, unrouted := make([]discoveryv1.Endpoint, 0, len(uses)), []discoveryv1.Endpoint{}
	var hints *discoveryv1.EndpointHints // for last
	var last []string
	for i, u := range uses {
		e := s.Endpoints[i]
		if !u.routed {
			unrouted = append(unrouted, e)
			continue
		}
		if !slices.Equal(u.zones, last) {
			hints, last = hintsFor(u.zones), u.zones
		}
		e.Hints = hints
		routed = append(routed, e)
	}
	name, rest := s.Name, ".unused"
	if group > 0 {
		name, rest = fmt.Sprintf("%s.ports%d", s.Name, group+1), "unused"
	}
	piece := func(name string, endpoints []discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
		p := *s
		p.Name, p.Labels, p.Ports, p.Endpoints = name, maps.Clone(s.Labels), ports, endpoints
		all = append(all, &p)
		return &p
	}
	if len(routed) > 0 || len(unrouted) == 0 {
		piece(name, routed).Labels[api.LabelKubernetesServiceName] = api.DerivedServiceName(w.in.Key.Namespace, w.in.Key.Name)
		name += rest
	}
	if len(unrouted) > 0 {
		w.unroute(piece(name, unrouted))
	}
	return all
}

// hintsFor returns hints for zones, nil if there are none.
func hintsFor(zones []string) *discoveryv1.EndpointHints {
	if len(zones) == 0 {
		return nil
	}
	hints := &discoveryv1.EndpointHints{ForZones: make([]discoveryv1.ForZone, len(zones))}
	for i, zone := range zones {
		hints.ForZones[i].Name = zone
	}
	return hints
}

// WholeSlice returns the name of the EndpointSlice that the named slice is a piece of, or the name itself if it is no piece.
// The last part of a piece's name has no dash; that of other slices has one.
func WholeSlice(name string) string {
	if i := strings.LastIndexByte(name, '.'); i >= 0 && !strings.Contains(name[i:], "-") {
		return name[:i]
	}
	return name
}
