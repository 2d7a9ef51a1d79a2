// Package preview says what would change: which endpoints each service has, by DNS and behind its ClusterSetIP, in each place of
// the set, before and after a cluster goes down, is drained or leaves, a service is exported, a policy stated.
//
// It decides nothing itself. A State is what the hub has; from it what each cluster would import is computed by importer/desired,
// as the importer does, and read by internal/index and internal/kubeproxy, as the DNS servers and the service proxies do. How a
// silence ends says hub/liveness. The flow:
//
//	the hub's records ─ state.go   ─► State
//	Changes           ─ change.go  ─► the State after them, and the services that they touch
//	both              ─ look.go    ─► what a service is to clusters that see it alike
//	                  ─ answer.go  ─► the Answers of a place
//	                  ─ compare.go ─► Cells, with their Effects, worst first: the Result
//
// The package is pure: it reads no API server and no clock.
package preview
