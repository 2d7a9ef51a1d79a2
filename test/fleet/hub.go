package fleet

import (
	"path/filepath"
)

// Hub is a bare API server, with the process that watches heartbeats beside it.
type Hub struct {
	Cluster
	Process *Program
	// Flags are additional flags of `clusterset hub`, for the next start of the process.
	Flags []string
	// Metrics are the process's metrics.
	Metrics Metrics
}

// NewHub describes a hub. Before its process starts, the API server needs Rights("hub") and the CRDs.
func NewHub(dir string, bin Binaries) *Hub {
	h := &Hub{Cluster: Cluster{Name: "hub", Dir: filepath.Join(dir, "hub")}}
	h.Process = &Program{
		Name: "the hub process", Path: bin.Clusterset, Log: filepath.Join(dir, "hub.log"),
		Args: h.args, Up: h.Metrics.Up,
	}
	return h
}

// Replica describes a second process of the hub, with its own log.
func (h *Hub) Replica(flags ...string) *Hub {
	r := &Hub{Cluster: h.Cluster, Flags: flags}
	r.Process = &Program{
		Name: "the second hub process", Path: h.Process.Path, Log: filepath.Join(filepath.Dir(h.Dir), "second-hub.log"),
		Args: r.args, Up: r.Metrics.Up,
	}
	return r
}

// args returns the arguments for a process that has its own account's rights.
func (h *Hub) args() ([]string, error) {
	kubeconfig, err := h.KubeconfigFor("clusterset-hub")
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
