package clusterset_test

import (
	"fmt"
	"testing"
	"time"

	clusterset "github.com/clusterset/clusterset/plugin"
	"github.com/clusterset/clusterset/test/kube"
)

func reachabilityYAML(stamp time.Time, unreachable ...string) []byte {
	clusters := ""
	if len(unreachable) == 0 {
		clusters = " []"
	}
	for _, name := range unreachable {
		clusters += fmt.Sprintf("\n- {name: %s, reachable: 'False', reason: NoAnswer, since: '2026-01-01T00:00:00Z', reached: true}", name)
	}
	return fmt.Appendf(nil, `
apiVersion: clusterset.dev/v1alpha1
kind: Reachability
metadata: {name: local}
cluster: here
stamp: %q
clusters:%s
`, stamp.UTC().Format("2006-01-02T15:04:05.000000Z"), clusters)
}

// Rules D40 and D51 of docs/spec/data-path.md.
func liveAnswersFollowReachability(t *testing.T, control *kube.ControlPlane) {
	const db, near, far = "A db.reach.svc.clusterset.local", "10.1.0.1", "10.2.0.1"
	control.Apply(t, namespaceYAML("reach"), memberYAML("reach-near", "a", "r1", false), memberYAML("reach-far", "z", "r2", false),
		importYAML("reach", "db", "Headless"), sliceYAML("reach", "db-near", "db", "reach-near", near), sliceYAML("reach", "db-far", "db", "reach-far", far))
	defer func() { control.Delete(t, reachabilityYAML(time.Now())) }()
	t.Run("follow", func(t *testing.T) {
		s := startLive(t, liveCorefile(control.Kubeconfig()))
		for _, step := range []struct {
			unreachable []string
			want        string
		}{
			{nil, near}, {[]string{"reach-near"}, far}, {[]string{"reach-near", "reach-far"}, near}, {[]string{"reach-far"}, near}, {[]string{"reach-near"}, far},
		} {
			control.Apply(t, reachabilityYAML(time.Now(), step.unreachable...))
			s.expect(t, map[string]string{db: step.want})
		}
		control.Delete(t, reachabilityYAML(time.Now()))
		s.expect(t, map[string]string{db: near})
	})
	t.Run("age", func(t *testing.T) {
		clusterset.SetReachAge(t, 3*time.Second)
		s := startLive(t, liveCorefile(control.Kubeconfig()))
		// A stamp of another clock counts as well as any: only that it changes does.
		stamp := time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)
		says := func() { stamp = stamp.Add(time.Second); control.Apply(t, reachabilityYAML(stamp, "reach-near")) }
		for range 2 {
			kube.Eventually(t, func() error {
				says()
				if got, err := s.ask(db); err != nil || got != far {
					return fmt.Errorf("%s, %w, want %s", got, err, far)
				}
				return nil
			})
			s.expect(t, map[string]string{db: near}) // the agent is gone
		}
	})
}
