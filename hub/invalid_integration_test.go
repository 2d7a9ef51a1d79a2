package hub_test

import (
	"fmt"
	"testing"

	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/clusterset/clusterset/test/kube"
)

// What an administrator writes in a MemberCluster and nobody can use is in the metrics for as long as it is there, or the member.
// "::::/0" is no network, but the CustomResourceDefinition takes it.
func TestInvalidMemberIsInTheMetrics(t *testing.T) {
	const name = "rennes" // of no other test: the metrics are those of the process
	w := newWorld(t, name)
	w.run()
	await := func(want string) {
		t.Helper()
		kube.Eventually(w, func() error {
			if is := invalidSeries(t, name); is != want {
				return fmt.Errorf("the series of %s is %q, want %q", name, is, want)
			}
			return nil
		})
	}
	set := func(networks ...string) {
		t.Helper()
		kube.Eventually(w, func() error { // the hub writes the status meanwhile
			mc, err := w.member(name)
			if err != nil {
				return err
			}
			mc.Spec.CIDRs = networks
			return w.admin.Update(w.Context(), mc)
		})
	}
	await("0")
	set("10.1.0.0/16", "::::/0")
	await("1")
	set("10.1.0.0/16")
	await("0")
	mc, err := w.member(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.admin.Delete(w.Context(), mc); err != nil {
		t.Fatal(err)
	}
	await("")
}

// invalidSeries returns the value of the series that says whether a MemberCluster is invalid, or nothing if there is no such series.
func invalidSeries(t *testing.T, member string) string {
	t.Helper()
	families, err := ctrlmetrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "clusterset_hub_member_invalid" && m.GetLabel()[0].GetValue() == member {
				return fmt.Sprint(m.GetGauge().GetValue())
			}
		}
	}
	return ""
}
