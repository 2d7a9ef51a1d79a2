package e2e

import testfleet "github.com/clusterset/clusterset/test/fleet"

// What fleets of every kind are made of, under the names that are used here.
type (
	program  = testfleet.Program
	location = testfleet.Location
)

var (
	until          = testfleet.Until
	freePort       = testfleet.FreePort
	logSince       = testfleet.LogSince
	withoutOrphans = testfleet.WithoutOrphans
	rights         = testfleet.Rights
)
