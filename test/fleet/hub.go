package fleet

import (
	"path/filepath"
)

// Hub is a bare API server and the process that watches heartbeats beside it.
type Hub struct {
	Cluster
	Process *Program
	// Flags are more flags of `clusterset hub`, for the next start of the process.
	Flags []string
	// Metrics are the process's.
	Metrics Metrics
}

// NewHub describes a hub. Its process needs Rights("hub") and our CRDs there before it starts.
func NewHub(dir string, bin Binaries) *Hub {
	h := &Hub{Cluster: Cluster{Name: "hub", dir: dir}}
	h.Process = &Program{
		Name: "the hub process", Path: bin.Clusterset, Log: filepath.Join(dir, "hub.log"),
		Args: h.args, Up: h.Metrics.Up,
	}
	return h
}

func (h *Hub) args() ([]string, error) {
	kubeconfig, err := h.Plane.KubeconfigFor("clusterset-hub")
	if err != nil {
		return nil, err
	}
	if err := h.Metrics.reserve(); err != nil {
		return nil, err
	}
	return append([]string{
		"hub", "--kubeconfig", kubeconfig, "--metrics-bind-address", h.Metrics.Addr, "--health-probe-bind-address", "0",
	}, h.Flags...), nil
}
