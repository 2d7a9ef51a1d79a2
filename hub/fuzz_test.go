package hub

import (
	"encoding/json"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/hub/liveness"
)

// FuzzLease lets a member write Leases with arbitrary JSON. They can make that member seem alive or silent, but don't affect another
// member's phase.
func FuzzLease(f *testing.F) {
	for _, text := range []string{
		`{"spec":{"holderIdentity":"agent","renewTime":"2026-01-01T00:00:00.000000Z","leaseDurationSeconds":40}}`,
		`{"metadata":{"annotations":{"a":"b"}},"spec":{"holderIdentity":"","renewTime":"9999-12-31T23:59:59.000000Z","leaseDurationSeconds":-1}}`,
		`{"spec":{"renewTime":"0001-01-01T00:00:00.000000Z","leaseTransitions":2147483647}}`, `{"spec":{}}`, `null`,
	} {
		f.Add([]byte(text), []byte(`{"spec":{"renewTime":"2026-01-01T00:00:10.000000Z"}}`), uint16(10))
		f.Add([]byte(text), []byte(text), uint16(400))
	}
	f.Fuzz(func(t *testing.T, first, second []byte, seconds uint16) {
		var leases [2]coordinationv1.Lease
		if json.Unmarshal(first, &leases[0]) != nil || json.Unmarshal(second, &leases[1]) != nil {
			return // the API server refuses it
		}
		now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		l := liveness.New(liveness.DefaultThresholds)
		for _, name := range []string{"hostile", "honest", "third"} {
			l.Know(name, clustersetv1alpha1.MemberReady, now, now)
		}
		heartbeat := func(n int) {
			l.Observe("honest", string(rune('a'+n%26)), now)
			l.Observe("third", string(rune('a'+n%26)), now)
		}
		l.Observe("hostile", beatOf(&leases[0]), now)
		heartbeat(0)
		for passed := 0; passed <= int(seconds%600); passed += 10 {
			heartbeat(passed/10 + 1)
			l.Decide(now)
			now = now.Add(10 * time.Second)
		}
		is := beatOf(&leases[1])
		changed := is != "" && is != beatOf(&leases[0]) // one without a time is no renewal
		l.Observe("hostile", is, now)
		decided := l.Decide(now)
		if decided["honest"].Phase != clustersetv1alpha1.MemberReady || decided["third"].Phase != clustersetv1alpha1.MemberReady || decided["honest"].Forget {
			t.Errorf("the others are %+v", decided)
		}
		if got := decided["hostile"].Phase; changed && got != clustersetv1alpha1.MemberReady {
			t.Errorf("after a renewal it is %s", got)
		}
	})
}
