package e2e

import (
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/test/fleettest"
)

// The commands return with --wait when what they changed is so in every cluster (C76 of docs/spec/control-plane.md).
func TestCommandsWait(t *testing.T) {
	f := outages(t)
	ns := f.Namespace("waits")
	for _, m := range f.Members {
		m.Apply(exported(ns, "web", httpPort), slice(ns, "web", "1", "IPv4", port8080, endpoint("10.200.14.1")))
	}
	hub := []string{"--hub-kubeconfig", f.Hub.Plane.Kubeconfig(), "--wait"}
	run := func(args ...string) {
		t.Helper()
		if err := clustersetCommand(t.Context(), append(args, hub...)...); err != nil {
			t.Fatal(err)
		}
	}
	everyoneHas := func(drained bool) {
		t.Helper()
		for _, m := range f.Members {
			var mc clustersetv1alpha1.MemberCluster
			if err := m.Get("", "beijing", &mc); err != nil || mc.Spec.Drain != drained {
				t.Errorf("in %s beijing is drained: %v, want %v; %v", m.Spec.Name, mc.Spec.Drain, drained, err)
			}
		}
	}
	tianjin, shanghai := f.Member("tianjin"), f.Member("shanghai")
	run("status", "--kubeconfig", tianjin.Plane.Kubeconfig())
	run("drain", "beijing")
	everyoneHas(true)
	run("undrain", "beijing")
	everyoneHas(false)

	run("leave", "--yes", "shanghai")
	for _, m := range []*fleettest.Member{f.Member("beijing"), tianjin} {
		var left discoveryv1.EndpointSliceList
		if err := m.List(&left, client.MatchingLabels{api.LabelSourceCluster: "shanghai"}); err != nil || len(left.Items) > 0 {
			t.Errorf("%d EndpointSlices of shanghai are left in %s, %v", len(left.Items), m.Spec.Name, err)
		}
	}
	if err := shanghai.Join(t.Context(), f.Hub); err != nil {
		t.Fatal(err)
	}
	shanghai.RestartAgent()
	run("join", "--rejoin", "shanghai")
	run("status", "--kubeconfig", shanghai.Plane.Kubeconfig())
}
