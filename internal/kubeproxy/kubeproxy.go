// Package kubeproxy determines from EndpointSlices which endpoints of a Service a service proxy uses. `clusterset explain` and
// `preview` use it to read what the importer wrote for kube-proxy.
package kubeproxy

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/utils/ptr"

	"github.com/clusterset/clusterset/api"
)

// Port is a port of the Service in one address family. A service proxy chooses endpoints for each separately.
type Port struct {
	Family   discoveryv1.AddressType
	Name     string // empty if it is the only one
	Protocol corev1.Protocol
}

// Endpoint is a ready endpoint and its cluster.
type Endpoint struct {
	*discoveryv1.Endpoint
	Cluster string
	// ClusterIP is set if the address stands for all endpoints of the cluster.
	ClusterIP bool
}

// Ready returns the ready endpoints of a Service's slices, by port.
func Ready(all []*discoveryv1.EndpointSlice) map[Port][]Endpoint {
	ports := map[Port][]Endpoint{}
	for _, s := range all {
		for i := range s.Endpoints {
			e := &s.Endpoints[i]
			if !ptr.Deref(e.Conditions.Ready, true) {
				continue
			}
			for _, p := range s.Ports {
				port := Port{s.AddressType, ptr.Deref(p.Name, ""), ptr.Deref(p.Protocol, corev1.ProtocolTCP)}
				ports[port] = append(ports[port], Endpoint{e, s.Labels[api.LabelSourceCluster], s.Labels[api.LabelServiceName] == ""})
			}
		}
	}
	return ports
}

// Zones returns the zones that a port's ready endpoints are hinted for, sorted. There are none if hints don't count and every
// node uses all endpoints.
func Zones(ready []Endpoint) (zones []string) {
	for _, e := range ready {
		if e.Hints == nil || len(e.Hints.ForZones) == 0 {
			return nil // kube-proxy ignores hints unless every endpoint has them
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

// In returns a port's ready endpoints that a node in that zone uses (pkg/proxy/topology.go in Kubernetes): the ones hinted for
// the zone, if every endpoint has hints and at least one is for the zone, or else all.
func In(ready []Endpoint, zone string) []Endpoint {
	if !slices.Contains(Zones(ready), zone) {
		return ready
	}
	return slices.DeleteFunc(slices.Clone(ready), func(e Endpoint) bool {
		return !slices.ContainsFunc(e.Hints.ForZones, func(z discoveryv1.ForZone) bool { return z.Name == zone })
	})
}
