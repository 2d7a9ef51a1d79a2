package exporter

import (
	"testing"
	"testing/synctest"
	"time"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

// A hub of an older version drops fields that it doesn't know. The exporter writes them once, and again from time to time, in case the hub
// was upgraded. Manual changes to a record are undone at once.
func TestWhatAnOlderHubDropsIsNotWrittenForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var k kept
		src := exported(slice("web-1", 1))
		src.Export.Annotations = map[string]string{"clusterset.dev/prefer": "zone"}
		want := desired(src)
		have := stored(t, want)
		have.Service.Spec.Policy = nil
		steps := func() int { return len(plan(have, want, &k)) }
		if n := steps(); n != 1 {
			t.Fatalf("%d steps for a record that says something else", n)
		}
		k.note(kindService, want.Service.Name, specHash(want.Service), specHash(have.Service))
		if n := steps(); n != 0 {
			t.Errorf("%d steps for all that the hub keeps", n)
		}
		have.Service.Spec.Ports = nil
		if n := steps(); n != 1 {
			t.Errorf("%d steps for a record that somebody changed", n)
		}
		have = stored(t, want)
		have.Service.Spec.Policy = nil
		want.Service.Spec.Policy = &clustersetv1alpha1.ServicePolicy{Prefer: "region"}
		if n := steps(); n != 1 {
			t.Errorf("%d steps for a record that is to say something else", n)
		}
		want = desired(src)
		elapse(retryPruned + time.Second)
		if n := steps(); n != 1 {
			t.Errorf("%d steps long after", n)
		}
		k.note(kindService, want.Service.Name, specHash(want.Service), specHash(want.Service))
		if len(k.of) != 0 {
			t.Errorf("a hub that keeps all is remembered: %v", k.of)
		}
	})
}
