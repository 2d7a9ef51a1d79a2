package desired

import "fmt"

// DataPath says what traffic to a ClusterSetIP is sent to.
type DataPath string

const (
	// DataPathPods sends it to the pods of all clusters. Needs a pod network that all of them share.
	DataPathPods DataPath = "pods"

	// DataPathClusterIPs sends it to the exporting Services' ClusterIPs. Needs a service network that is routed between
	// clusters, as FabEdge's is.
	DataPathClusterIPs DataPath = "clusterips"

	// DataPathNone gives services no ClusterSetIP, and makes no Service. Names lead to the exporters' own ClusterIPs, as
	// ranked by DNS from the GlobalService.
	DataPathNone DataPath = "none"
)

// ParseDataPath reads a data path as a flag states it.
func ParseDataPath(s string) (DataPath, error) {
	switch d := DataPath(s); d {
	case DataPathPods, DataPathClusterIPs, DataPathNone:
		return d, nil
	}
	return "", fmt.Errorf("unknown data path %q: want pods, clusterips or none", s)
}
