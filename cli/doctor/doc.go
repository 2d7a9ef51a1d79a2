// Package doctor finds what prevents cross-cluster names from working in a cluster, and says how to fix it.
//
// It implements `clusterset doctor`: gather.go and the files next to it read Facts, and the checks are pure
// functions of them. A check that can't be made, because the account may not read everything, says so and is no finding.
package doctor
