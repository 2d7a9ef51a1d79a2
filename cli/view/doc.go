// Package view is what is known of a cluster set, as seen from one cluster, from the hub, or from both: the clusters, the hub, the services
// that need attention, and what is wrong, with what to do about it.
//
// Every command and the console take it from here, so that none is green where another is red. fetch.go reads the objects, build.go turns
// them into a Report, and text.go prints that for `clusterset status`. The last two are pure.
package view
