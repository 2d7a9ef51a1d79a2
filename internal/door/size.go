package door

import "github.com/clusterset/clusterset/api"

const (
	// perRecord is about what a value takes besides what is in it, with its place in the store.
	perRecord = 512
	// perEndpoint and perPort are what an endpoint and a port of a value take besides their strings, and perAddress what an endpoint's further
	// address does.
	perEndpoint, perPort, perAddress = 88, 56, 24
	// perPiece is about what an endpoint takes in one more EndpointSlice that it is in for the sake of another port (D25).
	perPiece = 32
)

// size returns about how many bytes the value takes. Its spec takes about as much as its text.
func (e *Export) size() int { return perRecord + len(e.Name) + 2*len(e.Text) }

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
