package hostile

import (
	"testing"

	"github.com/clusterset/clusterset/test/fleettest"
)

func TestMain(m *testing.M) { fleettest.Main(m) }
