// Package gateway tests other projects' gateways with our ServiceImports: Envoy Gateway, on the API server of a member of a fleet
// (test/fleettest). No Envoy runs. A program (./envoy) asks Envoy Gateway what it tells Envoy.
package gateway
