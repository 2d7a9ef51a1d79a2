package importer

import (
	"testing"

	"k8s.io/client-go/tools/events"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/internal/steer"
)

// A change is said in an Event before it takes effect, with what was before. The hub's own conditions leave the condition as it is. Rule D30.
func TestAChangeOfSteeringIsSaid(t *testing.T) {
	g, own := newRig(Options{}), memberAt("here", "zone-0")
	own.Labels = desired.Labels()
	g.here.put(own)
	recorder := events.NewFakeRecorder(10)
	g.report.events = recorder
	mirror := &mirror{local: g.local}
	for _, by := range []steer.Mode{steer.Hints, steer.Hints, steer.Labels, steer.Labels} {
		here := copies{g.local.cache}.Member("here")
		g.report.steered(t.Context(), here, steer.Steered(by, "because"))
		if err := sayOwn(t.Context(), g.local, "here", steer.Steered(by, "because")); err != nil {
			t.Fatal(err)
		}
		if err := mirror.copyStatus(t.Context(), copies{g.local.cache}.Member("here"), clustersetv1alpha1.MemberClusterStatus{}); err != nil {
			t.Fatal(err)
		}
	}
	close(recorder.Events)
	var said []string
	for e := range recorder.Events {
		said = append(said, e)
	}
	const want = "Warning Steered ClusterSetIPs are steered by labels, because; before, by hints, because"
	if len(said) != 1 || said[0] != want {
		t.Errorf("the Events are %q, want %q", said, want)
	}
}
