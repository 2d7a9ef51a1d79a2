package e2e

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/test/fleettest"
	"github.com/clusterset/clusterset/test/kube"
)

// writesOf returns how often an agent has written to its records on the hub.
func writesOf(m *fleettest.Member) float64 {
	m.Helper()
	n, err := m.Metrics.Sum("clusterset_exporter_hub_writes_total")
	if err != nil {
		m.Fatal(err)
	}
	return n
}

// diagnosed returns nil if `clusterset doctor` in the member reports what.
func diagnosed(m *fleettest.Member, what string) error {
	out, err := exec.Command(fleettest.Binaries().Clusterset, "doctor", "--kubeconfig", m.Plane.Kubeconfig()).CombinedOutput()
	if !strings.Contains(string(out), what) {
		return fmt.Errorf("doctor in %s doesn't say %q: %w\n%s", filepath.Base(m.Dir), what, err, out)
	}
	return nil
}

// A cluster is restored from another's backup while the other runs, so that two clusters have the same identity, name and
// credentials. The older one continues, even after a restart of its agent. The clone exports nothing. Both report it, and
// neither writes on behalf of the other.
func TestClonedCluster(t *testing.T) {
	f := outages(t)
	ns := f.Namespace("cloned")
	beijing, tianjin := f.Member("beijing"), f.Member("tianjin")
	only := func(address string) string { return slice(ns, "only", "1", "IPv4", port8080, endpoint(address)) }
	beijing.Apply(exported(ns, "only", "clusterIP: None, "+httpPort), only("10.200.17.1"), exported(ns, "web", httpPort))
	kube.Eventually(t, func() error { return importedFrom(tianjin, ns, "only", "beijing") })
	clone := beijing.Cloned()
	clone.Apply(only("10.200.17.66"), exported(ns, "more", httpPort))

	// Until the two detect each other, each writes its own records and removes the other's.
	beat := func(want *fleettest.Member) error {
		return errors.Join(
			want.NameTaken(0), holds(f.Hub, "beijing", ns, "only", "10.200.17.1"),
			f.Recorded("beijing", ns, "web", true), f.Recorded("beijing", ns, "more", false),
		)
	}
	began, before := time.Now(), writesOf(beijing)
	clone.StartAgent()
	kube.Eventually(t, func() error {
		var mc clustersetv1alpha1.MemberCluster
		if err := f.Hub.Get("", "beijing", &mc); err != nil {
			return err
		}
		if c := fleettest.Condition(mc.Status.Conditions, clustersetv1alpha1.ConditionCloned); c == nil || c.Status != metav1.ConditionTrue {
			return fmt.Errorf("the hub says of the cluster that it is cloned: %+v", c)
		}
		return errors.Join(clone.NameTaken(1), beat(beijing))
	})
	if writesOf(clone) == 0 {
		t.Error("the clone has written nothing, so that there was nothing to tell apart")
	}
	fleettest.Took(t, fmt.Sprintf("telling two clones apart, with %v writes of the one and %v of the other,", writesOf(beijing)-before, writesOf(clone)), began)
	for what, m := range map[string]*fleettest.Member{"the first": beijing, "the clone": clone} {
		kube.Eventually(t, func() error {
			if err := m.HasEvent("MemberCluster", "", "beijing", "ClusterCloned", "name of its own"); err != nil {
				return fmt.Errorf("%s: %w", what, err)
			}
			return nil
		})
	}

	// The clone's ServiceExports report it, and doctor reports it on both sides.
	kube.Eventually(t, func() error {
		return errors.Join(
			clone.ExportIs(ns, "only", "Ready", "False", "ClusterCloned"), clone.ExportIs(ns, "more", "Ready", "False", "ClusterCloned"),
			beijing.ExportIs(ns, "only", "Ready", "True", "Exported"),
			diagnosed(clone, "ClusterCloned: this cluster exports nothing"), diagnosed(beijing, "MemberCluster beijing: Cloned"),
		)
	})

	// From now on, the only writes are heartbeats and, now and then, the clone's claim. The records stay as they are.
	k, err := kubernetes.NewForConfig(f.Hub.Plane.Config())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), kube.Patience)
	defer cancel()
	leases, err := k.CoordinationV1().Leases(api.MemberNamespace("beijing")).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	records, wrote := versions(f.Hub, "beijing", ns), writesOf(clone)
	beats, says, heartbeats := 0, 0, 12
	if fleettest.Long {
		heartbeats = 60
	}
	var renewed time.Time
	for beats < heartbeats {
		e, open := <-leases.ResultChan()
		lease, ok := e.Object.(*coordinationv1.Lease)
		if !open || !ok {
			t.Fatalf("the watch of the Lease ended: %+v", e)
		}
		if e.Type != watch.Modified {
			continue
		}
		if at := lease.Spec.RenewTime.Time; at.Equal(renewed) {
			says++
		} else {
			renewed = at
			beats++
		}
	}
	leases.Stop()
	if says > beats/2 {
		t.Errorf("in %d heartbeats the Lease was written %d more times", beats, says)
	}
	if now := versions(f.Hub, "beijing", ns); now != records || writesOf(clone) != wrote {
		t.Errorf("after %d heartbeats, and %v writes of the clone, the records are\n%s, were\n%s", beats, writesOf(clone)-wrote, now, records)
	}

	// Restart the first cluster's agent, so that it starts later than the clone's.
	beijing.RestartAgent()
	kube.Eventually(t, func() error {
		return errors.Join(clone.NameTaken(1), beat(beijing), f.Hub.PhaseIs("beijing", clustersetv1alpha1.MemberReady))
	})
	beijing.Apply(only("10.200.17.2"))
	kube.Eventually(t, func() error { return holds(f.Hub, "beijing", ns, "only", "10.200.17.2") })

	clone.KillAgent()
	kube.Eventually(t, func() error {
		var mc clustersetv1alpha1.MemberCluster
		err := f.Hub.Get("", "beijing", &mc)
		if c := fleettest.Condition(mc.Status.Conditions, clustersetv1alpha1.ConditionCloned); err != nil || c == nil || c.Status != metav1.ConditionFalse {
			return fmt.Errorf("the hub says of the cluster that it is cloned: %+v, %w", c, err)
		}
		return beijing.HasEvent("MemberCluster", "", "beijing", "CloneGone")
	})
}
