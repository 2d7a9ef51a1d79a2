package clusterset_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/clusterset/clusterset/test/kube"
)

// liveLostAPIServer stops the API server, gracefully and by force, and starts it again.
func liveLostAPIServer(t *testing.T, control *kube.ControlPlane) {
	t.Cleanup(func() {
		if err := control.StartAPIServer(context.Background()); err != nil { // t.Context() has ended by now
			t.Error(err)
		}
	})
	const web, db, missing = "A web.outage.svc.clusterset.local", "A db.outage.svc.clusterset.local", "A missing.outage.svc.clusterset.local"
	want := func(i int) map[string]string {
		return map[string]string{web: fmt.Sprintf("10.0.1.%d", i), db: fmt.Sprintf("10.0.2.%d", i), missing: "NXDOMAIN"}
	}
	change := func(i int) {
		control.Apply(t, importYAML("outage", "web", "ClusterSetIP", want(i)[web]), sliceYAML("outage", "db-1", "db", "outage-c", want(i)[db]))
	}
	control.Apply(t, namespaceYAML("outage"), importYAML("outage", "db", "Headless"))
	change(0)
	s := startLive(t, liveCorefile(control.Kubeconfig()))
	s.expect(t, want(0))
	before := censusOfWatching(t)

	for i, end := range []func(){control.StopAPIServer, control.KillAPIServer, control.StopAPIServer, control.KillAPIServer} {
		allowed := map[string][]string{}
		for question, answer := range want(i) {
			allowed[question] = []string{answer}
		}
		stop := s.askAlong(t, allowed)
		failures := metric("source_errors_total", "source", "kubernetes", "kind", "EndpointSlice")
		end()
		for _, kind := range liveKinds {
			expectMetric(t, 0, "source_synced", "source", "kubernetes", "kind", kind)
		}
		kube.Eventually(t, func() error {
			if now := metric("source_errors_total", "source", "kubernetes", "kind", "EndpointSlice"); now < failures+2 {
				return fmt.Errorf("%v failures were counted, %v before", now, failures)
			}
			return nil
		})
		if err := control.StartAPIServer(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, kind := range liveKinds {
			expectMetric(t, 1, "source_synced", "source", "kubernetes", "kind", kind)
		}
		stop()
		change(i + 1)
		s.expect(t, want(i+1))
		expectCensus(t, before)
	}
}
