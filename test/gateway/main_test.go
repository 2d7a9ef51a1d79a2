package gateway

import (
	"fmt"
	"os"
	"testing"

	"github.com/clusterset/clusterset/test/fleettest"
	"github.com/clusterset/clusterset/test/ownnet"
)

// The members have beacons, and Envoy Gateway's ports can't be chosen, so everything runs in a network of its own.
func TestMain(m *testing.M) {
	if err := ownnet.Enter(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fleettest.Main(m)
}
