// Package status says on one screen how a set of clusters is: its clusters, the hub, and the services that need a look.
//
// It is what `clusterset status` prints: fetch.go reads the objects, build.go makes a Report of them, render.go a screen of
// that. The last two are pure.
package status
