package gateway

import (
	"testing"

	"github.com/clusterset/clusterset/test/fleettest"
)

// Envoy Gateway's ports can't be chosen either.
func TestMain(m *testing.M) { fleettest.MainWithBeacons(m) }
