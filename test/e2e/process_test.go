package e2e

import testfleet "github.com/clusterset/clusterset/test/fleet"

// The building blocks of all kinds of fleets, under the names used in this package.
type (
	program  = testfleet.Program
	location = testfleet.Location
)

var rights = testfleet.Rights
