package hub

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

// The records of a cluster that was silent for a day are deleted, also if they come back while it is silent, as from a backup of the hub. Nothing
// else need change for that. Its MemberCluster says so before, until the cluster is heard, and an Event once. Rule C22 of
// docs/spec/control-plane.md.
func TestForgottenRecordsThatReturnAreDeleted(t *testing.T) {
	h := newFakeHub(t, member("c")...)
	silent, _ := h.look("c")
	silent.Status.Phase, silent.Status.LastHeartbeatTime = clustersetv1alpha1.MemberExpired, new(metav1.NewTime(h.at.Add(-48*time.Hour)))
	h = newFakeHub(t, silent)
	for range 4 * 60 { // an hour, for which each process listens
		h.look("c")
		h.at = h.at.Add(15 * time.Second)
	}
	for _, when := range []string{"after a day", "and they came back", "and again"} {
		h.put(&clustersetv1alpha1.ExportedService{ObjectMeta: metav1.ObjectMeta{Namespace: api.MemberNamespace("c"), Name: "web.shop"}})
		began := silent.ForgottenAt()
		var again time.Duration
		if silent, again = h.look("c"); silent.ForgottenAt().IsZero() || when != "after a day" && !silent.ForgottenAt().Equal(began) {
			t.Errorf("%s: the MemberCluster says Forgotten since %s, then %s", when, began, silent.ForgottenAt())
		}
		var list clustersetv1alpha1.ExportedServiceList
		if err := h.List(t.Context(), &list, client.InNamespace(api.MemberNamespace("c"))); err != nil || len(list.Items) > 0 || again != forgottenEvery {
			t.Errorf("%s: %d records, looks again after %s, %v", when, len(list.Items), again, err)
		}
	}
	for range 2 { // the first may be as old as the hub's last restart
		h.beat("c")
		silent, _ = h.look("c")
		h.at = h.at.Add(time.Second)
	}
	if at := silent.ForgottenAt(); !at.IsZero() {
		t.Errorf("after it was heard, it says Forgotten since %s", at)
	}
	close(h.events.Events)
	forgotten := 0
	for e := range h.events.Events {
		if strings.Contains(e, clustersetv1alpha1.ReasonSilent) {
			forgotten++
		}
	}
	if forgotten != 1 {
		t.Errorf("%d Events that it is forgotten", forgotten)
	}
}
