package desired

import "fmt"

// DataPath is the destination of traffic to a ClusterSetIP.
type DataPath string

const (
	// DataPathPods sends traffic to the pods of all clusters. It needs a pod network that all clusters share.
	DataPathPods DataPath = "pods"

	// DataPathClusterIPs sends traffic to the exporting Services' ClusterIPs. It needs a service network that is routed
	// between clusters, such as FabEdge's.
	DataPathClusterIPs DataPath = "clusterips"

	// DataPathNone assigns no ClusterSetIP and creates no Service. Names resolve to the exporters' own ClusterIPs,
	// which DNS takes from the GlobalService and ranks.
	DataPathNone DataPath = "none"
)

// ParseDataPath parses the value of the --data-path flag.
func ParseDataPath(s string) (DataPath, error) {
	switch d := DataPath(s); d {
	case DataPathPods, DataPathClusterIPs, DataPathNone:
		return d, nil
	}
	return "", fmt.Errorf("unknown data path %q: want pods, clusterips or none", s)
}
