package door

import (
	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

const (
	// perRecord is about what a value takes besides what is in it, with its place in the store.
	perRecord = 512
	// perItem is about what an item of a list takes besides its strings, in JSON.
	perItem = 16
	// perEndpoint and perPort are what an endpoint and a port of a value take besides their strings, and perAddress what an endpoint's further
	// address does.
	perEndpoint, perPort, perAddress = 80, 56, 24
	// perPiece is about what an endpoint takes in one more EndpointSlice that it is in for the sake of another port (D25).
	perPiece = 32
)

// size returns about how many bytes the value takes, with what it causes in the cluster's objects.
func (e *Endpoints) size() int {
	size := perRecord + len(e.Name) + perPort*len(e.Ports) + (perEndpoint+perPiece*max(0, min(len(e.Ports), api.MaxPieces)-1))*len(e.Endpoints)
	for i := range e.Ports {
		size += len(e.Ports[i].Name) + len(e.Ports[i].AppProtocol)
	}
	for i := range e.Endpoints {
		size += len(e.Endpoints[i].Hostname) + perAddress*len(e.Endpoints[i].More)
	}
	return size
}

// sizeOfService returns about how many bytes an ExportedService's spec takes as JSON, at most.
func sizeOfService(s *clustersetv1alpha1.ExportedServiceSpec) int {
	size := sizeOf(s.ClusterIPs) + sizeOf(s.IPFamilies) + sizeOf(s.ExportTo) + sizeOf(s.Endpoints) + sizeOfMap(s.ExportedLabels) + sizeOfMap(s.ExportedAnnotations) +
		len(s.ServiceNamespace) + len(s.ServiceName) + len(s.Type) + len(s.SessionAffinity) + lengthOf(s.InternalTrafficPolicy) + lengthOf(s.TrafficDistribution)
	if s.Policy != nil {
		size += len(s.Policy.Prefer) + len(s.Policy.Boundary)
	}
	for i := range s.Ports {
		p := &s.Ports[i]
		size += perItem + len(p.Name) + len(p.Protocol) + lengthOf(p.AppProtocol)
		if p.TargetPort != nil {
			size += len(p.TargetPort.StrVal)
		}
	}
	return size
}

// sizeOfEndpoints returns about how many bytes an ExportedEndpoints' spec takes as JSON, at most.
func sizeOfEndpoints(s *clustersetv1alpha1.ExportedEndpointsSpec) int {
	size := len(s.ServiceNamespace) + len(s.ServiceName) + len(s.AddressType)
	for i := range s.Endpoints {
		p := &s.Endpoints[i]
		size += perItem + sizeOf(p.Addresses) + lengthOf(p.Hostname) + lengthOf(p.Zone)
	}
	for i := range s.Ports {
		p := &s.Ports[i]
		size += perItem + lengthOf(p.Name) + lengthOf(p.Protocol) + lengthOf(p.AppProtocol)
	}
	return size
}

func sizeOf[T ~string](all []T) (size int) {
	for _, s := range all {
		size += perItem + len(s)
	}
	return size
}

func sizeOfMap(m map[string]string) (size int) {
	for key, value := range m {
		size += perItem + len(key) + len(value)
	}
	return size
}

func lengthOf[T ~string](s *T) int {
	if s == nil {
		return 0
	}
	return len(*s)
}
