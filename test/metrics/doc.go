// Package metrics tests that docs/metrics.md lists every metric of the processes. It is a separate package because no
// program links both the plugin and the controllers.
package metrics
