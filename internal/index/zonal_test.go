package index

import (
	"fmt"
	"testing"

	"github.com/clusterset/clusterset/internal/topology"
)

// However many zones clients make up, a service keeps one answer for all of these.
func TestMadeUpZonesShareAnAnswer(t *testing.T) {
	x := published(topology.Location{}, &GlobalService{Service: "db.prod", Headless: true, Groups: []Group{{Cluster: "c1", Endpoints: endpoints("10.0.0.1")}}})
	s := x.Snapshot()
	for i := range 100 {
		for _, directive := range []string{"pin", "prefer"} {
			var l Lookup
			s.Lookup(&l, Zone{}, fmt.Sprintf("z%d.%s._zone.db.prod.svc", i, directive))
			s.Zonal(&l)
		}
	}
	if kept := len(s.Service("db.prod").Set(Global).zonal.answers); kept != 2 {
		t.Errorf("%d answers are kept, want one of each directive", kept)
	}
}
