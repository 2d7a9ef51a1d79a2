// Package doctor finds what keeps cross-cluster names from working in a cluster, and says how each is mended.
//
// It is `clusterset doctor`: gather.go and the edges beside it read Facts, and the checks, one to a file, are pure
// functions of those. A check that could not be made says so and is no finding: not everybody may read everything.
package doctor
