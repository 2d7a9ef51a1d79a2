// Package kubeproxy says which endpoints a service proxy uses behind a Service, as the EndpointSlices tell it. It is how
// `clusterset status` and `preview` read what the importer wrote for kube-proxy.
package kubeproxy

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/clusterset/clusterset/api"
)

// Port is what a service proxy chooses endpoints for on its own: a port of the Service, in one family.
type Port struct {
	Family   discoveryv1.AddressType
	Name     string // empty where it is the only one
	Protocol corev1.Protocol
}

// Endpoint is a ready endpoint and the cluster that it lies in.
type Endpoint struct {
	*discoveryv1.Endpoint
	Cluster string
	// ClusterIP says that it stands for all of its cluster's endpoints.
	ClusterIP bool
}

// Ready returns the ready endpoints of a Service's slices, by port.
func Ready(all []*discoveryv1.EndpointSlice) map[Port][]Endpoint {
	ports := map[Port][]Endpoint{}
	for _, s := range all {
		for i := range s.Endpoints {
			e := &s.Endpoints[i]
			if e.Conditions.Ready != nil && !*e.Conditions.Ready {
				continue
			}
			for _, p := range s.Ports {
				port := Port{Family: s.AddressType, Protocol: corev1.ProtocolTCP}
				if p.Name != nil {
					port.Name = *p.Name
				}
				if p.Protocol != nil {
					port.Protocol = *p.Protocol
				}
				ports[port] = append(ports[port], Endpoint{e, s.Labels[api.LabelSourceCluster], s.Labels[api.LabelServiceName] == ""})
			}
		}
	}
	return ports
}

// Zones returns the zones that a port's ready endpoints are hinted for, sorted. There are none where hints don't count: on every
// node all endpoints are used.
func Zones(ready []Endpoint) (zones []string) {
	for _, e := range ready {
		if e.Hints == nil || len(e.Hints.ForZones) == 0 {
			return nil // kube-proxy wants hints on every one
		}
		for _, z := range e.Hints.ForZones {
			if z.Name != api.HintNone {
				zones = append(zones, z.Name)
			}
		}
	}
	slices.Sort(zones)
	return slices.Compact(zones)
}

// In returns those of a port's ready endpoints that are used on a node of that zone (pkg/proxy/topology.go in Kubernetes): the
// hinted ones where every endpoint has hints and one is for the zone, else all.
func In(ready []Endpoint, zone string) []Endpoint {
	if !slices.Contains(Zones(ready), zone) {
		return ready
	}
	return slices.DeleteFunc(slices.Clone(ready), func(e Endpoint) bool {
		return !slices.ContainsFunc(e.Hints.ForZones, func(z discoveryv1.ForZone) bool { return z.Name == zone })
	})
}
