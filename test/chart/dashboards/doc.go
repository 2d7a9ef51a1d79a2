// Package dashboards writes the Grafana dashboards that the chart ships (charts/clusterset/files/dashboards): `go generate` in
// test/chart. They are code because three dashboards of sixty panels share their variables, their layout and most of their
// options, and as JSON would drift apart.
//
// What Grafana wants to be told is in grafana.go, what is shown in dns.go, member.go and hub.go.
package dashboards
