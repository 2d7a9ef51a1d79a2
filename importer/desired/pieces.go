package desired

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/clusterset/clusterset/api"
)

// split returns the slice of a record, labelled and hinted for kube-proxy, in pieces.
//
// kube-proxy chooses separately for each port and family, among the endpoints of all slices that have the port. But the label
// applies to a whole slice, and an endpoint's hints to all ports of its slice. If ports or endpoints need different ones, the
// slice is split into pieces.
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

// pieces returns the slices for some ports of a slice: one with the endpoints that kube-proxy is to use, and one with the
// others, for other readers.
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
