// Package chaos injects faults into a fleet (test/fleettest), and upgrades one, while every exported name is asked in every
// cluster. The oracle of test/random computes the expected answers. docs/reliability.md publishes the table of faults.
package chaos
