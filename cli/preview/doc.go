// Package preview computes the effect of changes: which endpoints each service has, by DNS and behind its ClusterSetIP, in each place
// of the set, before and after clusters fail, are drained, leave or move, or an export or a policy changes.
//
// It makes no decisions of its own. A State holds the hub's records. importer/desired computes from it what each cluster would import,
// as in the importer. internal/index and internal/kubeproxy read that, as DNS servers and service proxies do. hub/liveness decides the
// phase of silent clusters. The flow:
//
//	the hub's records ─ state.go   ─► State
//	Changes           ─ change.go  ─► the State after them
//	both              ─ look.go    ─► what clusters import of a service, once for clusters that import the same
//	                  ─ answer.go  ─► the Answers of a place
//	                  ─ compare.go ─► Cells, with their Effects, the worst first: the Result
//
// The package is pure: it reads no API server and no clock.
package preview
