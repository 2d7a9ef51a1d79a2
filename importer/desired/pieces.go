package desired

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/clusterset/clusterset/api"
)

// steered labels and hints slices for kube-proxy. behind[i] is how many endpoints are behind each of the i-th slice's, 0 where
// they are endpoints themselves.
//
// kube-proxy chooses for each port and family alone, among the endpoints of all slices that have the port. But the label is a
// slice's, and hints are an endpoint's for all ports of its slice. Where that isn't enough the slice is cut.
func (w *work) steered(all []*discoveryv1.EndpointSlice, behind []int) []*discoveryv1.EndpointSlice {
	targets := make([][]target, len(all))
	for i, s := range all {
		cluster := s.Labels[api.LabelSourceCluster]
		targets[i] = make([]target, len(s.Endpoints))
		for j := range s.Endpoints {
			e := &s.Endpoints[j]
			t := w.targetOf(cluster, e.Addresses[0], e.Zone, isReady(e))
			t.ClusterIP, t.Behind = s.Labels[api.LabelServiceName] == "", behind[i]
			targets[i][j] = t
		}
	}
	having := map[portKey][]int{} // the slices that have a port
	for i, s := range all {
		for _, port := range s.Ports {
			key := keyOf(s, port)
			having[key] = append(having[key], i)
		}
	}
	steered := map[string][][]use{} // by the slices that kube-proxy chooses among
	var out []*discoveryv1.EndpointSlice
	for i, s := range all {
		var groups [][]discoveryv1.EndpointPort // of ports for which the endpoints are used alike
		var uses [][]use
		for _, port := range s.Ports {
			among := having[keyOf(s, port)]
			key := fmt.Sprint(among)
			if steered[key] == nil {
				steered[key] = w.steerSlices(targets, among)
			}
			u := steered[key][i]
			g := slices.IndexFunc(uses, func(have []use) bool { return slices.EqualFunc(have, u, use.equal) })
			if g < 0 {
				g, groups, uses = len(groups), append(groups, nil), append(uses, u)
			}
			groups[g] = append(groups[g], port)
		}
		if len(groups) == 0 { // no port that the service has: nothing for kube-proxy
			unroute(s)
			out = append(out, s)
			continue
		}
		for g := range groups {
			out = append(out, w.pieces(s, g, groups[g], uses[g])...)
		}
	}
	return out
}

// portKey is what kube-proxy tells a Service's ports apart by, in one family.
type portKey struct {
	family   discoveryv1.AddressType
	name     string
	protocol corev1.Protocol
}

func keyOf(s *discoveryv1.EndpointSlice, p discoveryv1.EndpointPort) portKey {
	return portKey{s.AddressType, *p.Name, *p.Protocol}
}

// steerSlices decides how the endpoints of some slices are used, which kube-proxy chooses among.
func (w *work) steerSlices(targets [][]target, among []int) [][]use {
	var flat []target
	for _, i := range among {
		flat = append(flat, targets[i]...)
	}
	all := w.steer(flat)
	uses := make([][]use, len(targets))
	for _, i := range among {
		uses[i], all = all[:len(targets[i])], all[len(targets[i]):]
	}
	return uses
}

// pieces returns the part of a slice that has the ports: its endpoints that kube-proxy is to use, and beside them those that it
// is not to, for others to read.
func (w *work) pieces(s *discoveryv1.EndpointSlice, group int, ports []discoveryv1.EndpointPort, uses []use) []*discoveryv1.EndpointSlice {
	empty := func() *discoveryv1.EndpointSlice {
		piece := *s
		piece.Labels, piece.Ports, piece.Endpoints = maps.Clone(s.Labels), ports, []discoveryv1.Endpoint{}
		return &piece
	}
	routed, unrouted := empty(), empty()
	for i, u := range uses {
		e := s.Endpoints[i]
		if !u.routed {
			unrouted.Endpoints = append(unrouted.Endpoints, e)
			continue
		}
		if len(u.zones) > 0 {
			e.Hints = &discoveryv1.EndpointHints{}
			for _, zone := range u.zones {
				e.Hints.ForZones = append(e.Hints.ForZones, discoveryv1.ForZone{Name: zone})
			}
		}
		routed.Endpoints = append(routed.Endpoints, e)
	}
	routed.Labels[api.LabelKubernetesServiceName] = api.DerivedServiceName(w.in.Key.Namespace, w.in.Key.Name)
	unroute(unrouted)
	if group > 0 {
		routed.Name = fmt.Sprintf("%s.ports%d", s.Name, group+1)
	}
	unrouted.Name = routed.Name
	switch {
	case len(unrouted.Endpoints) == 0:
		return []*discoveryv1.EndpointSlice{routed}
	case len(routed.Endpoints) == 0:
		return []*discoveryv1.EndpointSlice{unrouted}
	}
	if group > 0 {
		unrouted.Name += "unused"
	} else {
		unrouted.Name += ".unused"
	}
	return []*discoveryv1.EndpointSlice{routed, unrouted}
}

// WholeSlice returns the name of the EndpointSlice that one of this name is a piece of; its own where it is none. The last part
// of a piece's name has no dash, while that of any other has one.
func WholeSlice(name string) string {
	if i := strings.LastIndexByte(name, '.'); i >= 0 && !strings.Contains(name[i:], "-") {
		return name[:i]
	}
	return name
}
