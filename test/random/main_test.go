package random

import (
	"testing"

	"github.com/clusterset/clusterset/test/fleettest"
)

func TestMain(m *testing.M) { fleettest.MainWithBeacons(m) }
