package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/test/fleettest"
	"github.com/clusterset/clusterset/test/kube"
)

// everywhere exports services from all members, and returns the answers that each member's DNS must give, by name. All
// members export "web". Only beijing exports "only", which is headless.
func everywhere(f *fleettest.Fleet, ns string) map[*fleettest.Member]map[string]string {
	f.Helper()
	for _, m := range f.Members {
		m.Apply(exported(ns, "web", httpPort), slice(ns, "web", "1", "IPv4", port8080, endpoint(fmt.Sprintf("10.20%d.12.1", m.Number))))
	}
	f.Member("beijing").Apply(exported(ns, "only", "clusterIP: None, "+httpPort), slice(ns, "only", "1", "IPv4", port8080, endpoint("10.200.12.2")))
	want := map[*fleettest.Member]map[string]string{}
	for _, m := range f.Members {
		want[m] = map[string]string{
			"web." + ns + ".svc.global":            m.ClusterIP(ns, "web", v4),
			"web." + ns + ".svc.clusterset.local":  m.VIP(ns, "web", v4),
			"only." + ns + ".svc.clusterset.local": "10.200.12.2",
			"only." + ns + ".svc.global":           "10.200.12.2",
			"beijing.web." + ns + ".svc.global":    f.Member("beijing").ClusterIP(ns, "web", v4),
			"shanghai.web." + ns + ".svc.global":   f.Member("shanghai").ClusterIP(ns, "web", v4),
		}
	}
	stillAnswer(f, want)
	return want
}

// stillAnswer waits until every member's DNS gives the wanted answers.
func stillAnswer(f *fleettest.Fleet, want map[*fleettest.Member]map[string]string) {
	f.Helper()
	f.Eventually(func(m *fleettest.Member) error {
		var errs []error
		for name, answer := range want[m] {
			errs = append(errs, m.DNS.Answers(name, "A", answer))
		}
		return errors.Join(errs...)
	})
}

// throughout asks all these questions over and over, until the returned function is called. Any other answer fails the test.
func throughout(f *fleettest.Fleet, want map[*fleettest.Member]map[string]string) (stop func()) {
	f.Helper()
	var stops []func()
	for m, answers := range want {
		for name, answer := range answers {
			stops = append(stops, m.DNS.Alongside(name, "A", answer))
		}
	}
	return func() {
		f.Helper()
		for _, s := range stops {
			s()
		}
	}
}

// While the hub's API server is down, every name keeps its answer in every member, and DNS servers and agents can restart.
// Afterwards every member catches up.
func TestHubAPIServerDown(t *testing.T) {
	f := outages(t)
	ns := f.Namespace("down")
	beijing, tianjin, shanghai := f.Member("beijing"), f.Member("tianjin"), f.Member("shanghai")
	want := everywhere(f, ns)
	shanghai.Apply(exported(ns, "leaving", httpPort))
	f.Eventually(func(m *fleettest.Member) error { return importedFrom(m, ns, "leaving", "shanghai") })
	for round, end := range []func(){f.Hub.Plane.StopAPIServer, f.Hub.Plane.KillAPIServer} {
		stop := throughout(f, want)
		end()
		// An agent that starts now comes up and waits for the hub. New exports wait too, and report it.
		name := fmt.Sprintf("meanwhile-%d", round)
		tianjin.KillAgent()
		tianjin.StartAgent()
		tianjin.Apply(exported(ns, name, httpPort))
		if round == 0 {
			shanghai.Remove(export(ns, "leaving", ""))
		}
		kube.Eventually(t, func() error { return tianjin.ExportIs(ns, name, "Ready", "Unknown", "Pending") })
		if err := errors.Join(beijing.ExportIs(ns, "web", "Ready", "True", "Exported"), tianjin.ExportIs(ns, "web", "Ready", "True", "Exported")); err != nil {
			t.Errorf("what is on the hub already is no longer said to be: %v", err)
		}
		stop()
		// A DNS server that starts now needs only its own cluster.
		beijing.DNS.Restart()
		stillAnswer(f, want)
		stop = throughout(f, want)
		began := time.Now()
		f.Hub.StartAPIServer()
		fleettest.Took(t, "the start of the hub's API server", began)
		began = time.Now()
		f.Eventually(func(m *fleettest.Member) error { return importedFrom(m, ns, name, "tianjin") })
		kube.Eventually(t, func() error { return tianjin.ExportIs(ns, name, "Ready", "True", "Exported") })
		f.Eventually(func(m *fleettest.Member) error { return m.Gone(ns, "leaving") })
		fleettest.Took(t, "catching up after the outage", began)
		f.Settle()
		stop()
	}
}

// Somebody empties the hub while agents run: first its MemberClusters, then every record. The agents write their records
// again. While a member's own MemberCluster is missing on the hub, its importer removes nothing. The state "held" counts
// those imports, and an Event reports them.
func TestHubEmptied(t *testing.T) {
	f := outages(t)
	ns := f.Namespace("emptied")
	want := everywhere(f, ns)
	stop := throughout(f, want)
	// A stopped agent can't write its records again, so they stay missing.
	f.Member("beijing").StopAgent()
	lose(f.Hub, "beijing", "tianjin", "shanghai")
	for _, m := range f.Members {
		for _, all := range []client.Object{&clustersetv1alpha1.ExportedService{}, &clustersetv1alpha1.ExportedEndpoints{}} {
			deleteAll(&f.Hub.Cluster, all, client.InNamespace(api.MemberNamespace(m.Spec.Name)))
		}
	}
	for _, m := range f.Members {
		if !m.Agent.Running() {
			continue
		}
		kube.Eventually(t, func() error {
			n, err := m.Metrics.Sum("clusterset_importer_services", "state", "held")
			if err == nil && n < 2 { // web, which lacks beijing's records, and only
				err = fmt.Errorf("%v services are held", n)
			}
			return errors.Join(err, f.Recorded(m.Spec.Name, ns, "web", true),
				m.HasEvent("MemberCluster", "", m.Spec.Name, "NotRejoined", "stays"))
		})
	}
	// An agent that starts now also holds its imports.
	f.Member("beijing").StartAgent()
	kube.Eventually(t, func() error { return f.Recorded("beijing", ns, "only", true) })
	f.Member("shanghai").RestartAgent()
	kube.Eventually(t, func() error {
		n, err := f.Member("shanghai").Metrics.Sum("clusterset_importer_hub_synced")
		if err == nil && n != 1 {
			err = errors.New("it hasn't read the hub yet")
		}
		return err
	})
	stop()
	f.Rejoin()
	f.Settle()
	stillAnswer(f, want)
	kube.Eventually(t, func() error { return nothingHeld(f) })
}

// Somebody deletes every record from the hub while all MemberClusters stay. The agents write the records again at once, and
// no name disappears meanwhile. A service that a user un-exports at the same time is removed as fast as usual.
func TestRecordsDeletedByHand(t *testing.T) {
	f := outages(t)
	ns := f.Namespace("byhand")
	want := everywhere(f, ns)
	beijing := f.Member("beijing")
	beijing.Apply(exported(ns, "leaving", httpPort))
	f.Eventually(func(m *fleettest.Member) error { return importedFrom(m, ns, "leaving", "beijing") })
	stop := throughout(f, want)
	for range 3 {
		for _, m := range f.Members {
			for _, all := range []client.Object{&clustersetv1alpha1.ExportedService{}, &clustersetv1alpha1.ExportedEndpoints{}} {
				deleteAll(&f.Hub.Cluster, all, client.InNamespace(api.MemberNamespace(m.Spec.Name)))
			}
		}
		for _, m := range f.Members {
			kube.Eventually(t, func() error { return f.Recorded(m.Spec.Name, ns, "web", true) })
		}
	}
	began := time.Now()
	beijing.Remove(export(ns, "leaving", ""))
	f.Eventually(func(m *fleettest.Member) error { return m.Gone(ns, "leaving") })
	fleettest.Took(t, "un-exporting", began)
	kube.Eventually(t, func() error { return nothingHeld(f) })
	stop()
	stillAnswer(f, want)
}

// nothingHeld returns nil if no importer holds an import that the hub doesn't have.
func nothingHeld(f *fleettest.Fleet) error {
	var errs []error
	for _, m := range f.Members {
		n, err := m.Metrics.Sum("clusterset_importer_services", "state", "held")
		if err == nil && n > 0 {
			err = fmt.Errorf("%s: %v services are still held: %s", m.Spec.Name, n, unconfirmed(m))
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// unconfirmed says which parts of which services a member keeps without a record.
func unconfirmed(m *fleettest.Member) string {
	var all mcsv1beta1.ServiceImportList
	var said []string
	if err := m.List(&all); err != nil {
		return err.Error()
	}
	for i := range all.Items {
		if c := meta.FindStatusCondition(all.Items[i].Status.Conditions, api.ConditionConfirmed); c != nil {
			said = append(said, all.Items[i].Namespace+"/"+all.Items[i].Name+": "+c.Message)
		}
	}
	return strings.Join(said, "; ")
}

// The hub returns with an empty etcd: no CRDs, no members, no accounts. Nothing changes anywhere until somebody joins the
// members again, one after another. Each that has joined waits for the others. In the end everything is as before, including
// the ClusterSetIPs of a member's own exports.
func TestHubThatLosesItsData(t *testing.T) {
	f := outages(t)
	ns := f.Namespace("lost")
	want := everywhere(f, ns)
	stop := throughout(f, want)
	f.Hub.Kill()
	f.Hub.Plane.StopAPIServer()
	f.Hub.Plane.StopEtcd()
	if err := os.RemoveAll(filepath.Join(f.Hub.Dir, "etcd")); err != nil {
		t.Fatal(err)
	}
	if err := f.Hub.Plane.StartEtcd(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.Hub.StartAPIServer()
	// Running agents are refused, because their accounts are gone. So is an agent that starts now.
	f.Member("tianjin").KillAgent()
	f.Member("tianjin").StartAgent()
	for _, m := range f.Members {
		refused, err := m.Metrics.Sum("clusterset_exporter_heartbeats_total", "result", "error")
		if err != nil {
			t.Fatal(err)
		}
		if m.Spec.Name == "tianjin" {
			continue // it sends no heartbeat before it has read the hub
		}
		kube.Eventually(t, func() error {
			n, err := m.Metrics.Sum("clusterset_exporter_heartbeats_total", "result", "error")
			if err == nil && n < refused+2 {
				err = fmt.Errorf("%v heartbeats were refused, %v before", n, refused)
			}
			return err
		})
	}
	// The API server has no CRDs until the first member joins.
	if err := f.Hub.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.Hub.Start()
	for i, m := range f.Members {
		if err := m.Join(context.Background(), f.Hub, "--rejoin"); err != nil {
			t.Fatal(err)
		}
		m.RestartAgent() // it would read the new token within half a minute anyway
		kube.Eventually(t, func() error {
			awaited, err := m.Metrics.Sum("clusterset_importer_awaited_clusters")
			if missing := len(f.Members) - 1 - i; err == nil && int(awaited) != missing {
				err = fmt.Errorf("%s waits for %v clusters, want %d", m.Spec.Name, awaited, missing)
			}
			return errors.Join(err, f.Hub.PhaseIs(m.Spec.Name, clustersetv1alpha1.MemberReady), f.Recorded(m.Spec.Name, ns, "web", true))
		})
		for _, other := range f.Members[i+1:] {
			kube.Eventually(t, func() error {
				return m.HasEvent("MemberCluster", "", other.Spec.Name, "NotRejoined", "hasn't joined again")
			})
		}
		if i == 0 {
			// A service that the first member un-exports is removed without waiting for the other members.
			m.Apply(exported(ns, "brief", httpPort))
			kube.Eventually(t, func() error { return importedFrom(m, ns, "brief", m.Spec.Name) })
			m.Remove(export(ns, "brief", ""))
			kube.Eventually(t, func() error { return m.Gone(ns, "brief") })
		}
	}
	f.Settle()
	kube.Eventually(t, func() error { return nothingHeld(f) })
	stop()
	stillAnswer(f, want)
}

// What a lost cluster exported stays until somebody deletes the copy of its MemberCluster. Rule C44 of docs/spec/control-plane.md.
func TestALostClusterStaysUntilSomebodyGivesItUp(t *testing.T) {
	f := outages(t)
	ns := f.Namespace("ends")
	beijing, tianjin, shanghai := f.Member("beijing"), f.Member("tianjin"), f.Member("shanghai")
	want := everywhere(f, ns)
	stop := throughout(f, map[*fleettest.Member]map[string]string{tianjin: want[tianjin]})
	shanghai.KillAgent()
	lose(f.Hub, "beijing", "tianjin", "shanghai")
	deleteAll(&f.Hub.Cluster, &clustersetv1alpha1.ExportedService{}, client.InNamespace(api.MemberNamespace("shanghai")))
	for _, m := range []*fleettest.Member{beijing, tianjin} {
		if err := m.Join(t.Context(), f.Hub, "--rejoin"); err != nil {
			t.Fatal(err)
		}
	}
	kube.Eventually(t, func() error { return tianjin.HasEvent("MemberCluster", "", "shanghai", "NotRejoined", "stays") })
	deleteAll(&beijing.Cluster, &clustersetv1alpha1.MemberCluster{}, client.MatchingFields{"metadata.name": "shanghai"})
	kube.Eventually(t, func() error { return importedFrom(beijing, ns, "web", "beijing", "tianjin") })
	if err := importedFrom(tianjin, ns, "web", "beijing", "tianjin", "shanghai"); err != nil {
		t.Error(err)
	}
	if err := shanghai.Join(t.Context(), f.Hub, "--rejoin"); err != nil {
		t.Fatal(err)
	}
	shanghai.StartAgent()
	f.Settle()
	kube.Eventually(t, func() error { return nothingHeld(f) })
	stop()
	stillAnswer(f, want)
}

// deleteAll deletes every object of a kind, or those that the options select.
func deleteAll(c *fleettest.Cluster, kind client.Object, opts ...client.DeleteAllOfOption) {
	c.Helper()
	if err := c.Client.DeleteAllOf(context.Background(), kind, opts...); err != nil {
		c.Fatal(err)
	}
}
