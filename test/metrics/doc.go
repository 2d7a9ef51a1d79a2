// Package metrics holds the test that docs/metrics.md names what the processes export. It is a package of its own because no
// program links both the plugin and the controllers.
package metrics
