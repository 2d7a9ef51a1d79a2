package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/test/fleettest"
	"github.com/clusterset/clusterset/test/kube"
)

// While the hub's API server is down, every name keeps its answer in every member, and DNS servers and agents can restart. A running agent
// reports in a metric that it can't read the hub any more: the alert ClustersetHubAway uses that metric (test/chart has its tests, with these
// values). Afterwards every member catches up.
func TestHubAPIServerDown(t *testing.T) {
	f := outages(t)
	ns := f.Namespace("down")
	beijing, tianjin, shanghai := f.Member("beijing"), f.Member("tianjin"), f.Member("shanghai")
	want := everywhere(f, ns)
	shanghai.Apply(exported(ns, "leaving", httpPort))
	f.Eventually(func(m *fleettest.Member) error {
		return errors.Join(importedFrom(m, ns, "leaving", "shanghai"), metricIs(m.Metrics, 1, "clusterset_importer_hub_synced"))
	})
	stop := want.throughout()
	f.Hub.Plane.KillAPIServer()
	// An agent that starts now comes up and waits for the hub. New exports wait too, and report it.
	tianjin.KillAgent()
	tianjin.StartAgent()
	tianjin.Apply(exported(ns, "meanwhile", httpPort))
	shanghai.Remove(export(ns, "leaving", ""))
	kube.Eventually(t, func() error {
		return errors.Join(tianjin.ExportIs(ns, "meanwhile", "Ready", "Unknown", "Pending"), metricIs(shanghai.Metrics, 0, "clusterset_importer_hub_synced"))
	})
	if err := errors.Join(beijing.ExportIs(ns, "web", "Ready", "True", "Exported"), tianjin.ExportIs(ns, "web", "Ready", "True", "Exported")); err != nil {
		t.Errorf("what is on the hub already is no longer said to be: %v", err)
	}
	stop()
	beijing.DNS.Restart() // a DNS server that starts now needs only its own cluster
	want.are(f)
	stop = want.throughout()
	f.Hub.StartAPIServer()
	began := time.Now()
	f.Eventually(func(m *fleettest.Member) error {
		return errors.Join(importedFrom(m, ns, "meanwhile", "tianjin"), m.Gone(ns, "leaving"), metricIs(m.Metrics, 1, "clusterset_importer_hub_synced"))
	})
	kube.Eventually(t, func() error { return tianjin.ExportIs(ns, "meanwhile", "Ready", "True", "Exported") })
	fleettest.Took(t, "catching up after the outage", began)
	f.Settle()
	stop()
}

// The hub returns with an empty etcd: no CRDs, no members, no accounts. Nothing changes anywhere until somebody joins the members again, one
// after another. Each that has joined waits for the others. In the end everything is as before, including the ClusterSetIPs.
func TestHubThatLosesItsData(t *testing.T) {
	f := outages(t)
	ns := f.Namespace("lost")
	want := everywhere(f, ns)
	stop := want.throughout()
	f.Hub.Kill()
	f.Hub.Plane.StopAPIServer()
	f.Hub.Plane.StopEtcd()
	if err := errors.Join(os.RemoveAll(filepath.Join(f.Hub.Dir, "etcd")), f.Hub.Plane.StartEtcd(t.Context())); err != nil {
		t.Fatal(err)
	}
	f.Hub.StartAPIServer()
	// Running agents are refused, because their accounts are gone. So is an agent that starts now, before it has sent a heartbeat.
	f.Member("tianjin").KillAgent()
	f.Member("tianjin").StartAgent()
	for _, m := range []*fleettest.Member{f.Member("beijing"), f.Member("shanghai")} {
		refused := func() float64 {
			n, err := m.Metrics.Sum("clusterset_exporter_heartbeats_total", "result", "error")
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		before := refused()
		kube.Eventually(t, func() error {
			if n := refused(); n < before+2 {
				return fmt.Errorf("%v heartbeats were refused, %v before", n, before)
			}
			return nil
		})
	}
	if err := f.Hub.Prepare(t.Context()); err != nil { // the API server has no CRDs until the first member joins
		t.Fatal(err)
	}
	f.Hub.Start()
	for i, m := range f.Members {
		if err := m.Join(t.Context(), f.Hub, "--rejoin"); err != nil {
			t.Fatal(err)
		}
		m.RestartAgent() // it would read the new token within half a minute anyway
		kube.Eventually(t, func() error {
			errs := []error{waitsFor(m, len(f.Members)-1-i), f.Hub.PhaseIs(m.Spec.Name, clustersetv1alpha1.MemberReady), f.Recorded(m.Spec.Name, ns, "web", true)}
			for _, other := range f.Members[i+1:] {
				errs = append(errs, m.HasEvent("MemberCluster", "", other.Spec.Name, "NotRejoined", "hasn't joined again"))
			}
			return errors.Join(errs...)
		})
		if i == 0 { // a service that the first member un-exports is removed without waiting for the other members
			m.Apply(exported(ns, "brief", httpPort))
			kube.Eventually(t, func() error { return importedFrom(m, ns, "brief", m.Spec.Name) })
			m.Remove(export(ns, "brief", ""))
			kube.Eventually(t, func() error { return m.Gone(ns, "brief") })
		}
	}
	f.Settle()
	kube.Eventually(t, func() error { return nothingHeld(f) })
	stop()
	want.are(f)
}
