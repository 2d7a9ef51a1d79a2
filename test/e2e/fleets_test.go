package e2e

import (
	"fmt"
	"testing"

	"github.com/clusterset/clusterset/test/fleettest"
)

// cities returns the shared fleet of FabDNS's example. All clusters but shijiazhuang are dual-stack; xicheng has
// controllers.
func cities(t *testing.T) *fleettest.Fleet {
	t.Helper()
	f := fleettest.Shared(t, "cities", 1,
		fleettest.Spec{Name: "xicheng", Zone: "beijing", Region: "north", DualStack: true, Controllers: true},
		fleettest.Spec{Name: "chaoyang", Zone: "beijing", Region: "north", DualStack: true},
		fleettest.Spec{Name: "minhang", Zone: "shanghai", Region: "south", DualStack: true},
		fleettest.Spec{Name: "shijiazhuang", Zone: "hebei", Region: "north"},
	)
	f.Settle()
	return f
}

// outages returns one of the two shared fleets for tests that kill processes. tianjin is the nearest cluster to beijing, by
// region. Each cluster measures which others it reaches.
func outages(t *testing.T) *fleettest.Fleet {
	t.Helper()
	f := fleettest.Shared(t, "outages", 2,
		fleettest.Spec{Name: "beijing", Zone: "beijing", Region: "north", Beacons: true},
		fleettest.Spec{Name: "tianjin", Zone: "tianjin", Region: "north", Beacons: true},
		fleettest.Spec{Name: "shanghai", Zone: "shanghai", Region: "south", Beacons: true},
	)
	f.Settle()
	t.Cleanup(func() { // a test may leave processes stopped
		f.Hub.StartAPIServer()
		for _, m := range f.Members {
			m.StartAPIServer()
			m.StartAgent()
			m.DNS.Start()
		}
		f.Hub.Restart()
		f.Settle()
		f.Eventually(func(m *fleettest.Member) error { // what nobody can write down would stay for a day (C41), in the next test too
			if names, err := f.Hub.Records(m.Spec.Name); err != nil || len(names) > 0 {
				return fmt.Errorf("the hub has %v, %w", names, err)
			}
			return nil
		})
	})
	return f
}
