// Package status shows on one screen the state of a cluster set: its clusters, the hub, and the services that need attention.
//
// It implements `clusterset status`: fetch.go reads the objects, build.go turns them into a Report, render.go prints that. The
// last two are pure.
package status
