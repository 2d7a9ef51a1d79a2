package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/test/kube"
)

// everywhere exports services from all members and returns the answers of each member's DNS, by question. All members export
// "web". Only beijing exports "only", which has pods.
func (f *fleet) everywhere(ns string) map[*member]map[string]string {
	f.Helper()
	for _, m := range f.members {
		m.apply(exported(ns, "web", httpPort), slice(ns, "web", "1", "IPv4", port8080, endpoint(fmt.Sprintf("10.20%d.12.1", m.number))))
	}
	f.member("beijing").apply(exported(ns, "only", "clusterIP: None, "+httpPort), slice(ns, "only", "1", "IPv4", port8080, endpoint("10.200.12.2")))
	want := map[*member]map[string]string{}
	for _, m := range f.members {
		want[m] = map[string]string{
			"web." + ns + ".svc.global":            m.clusterIP(ns, "web", v4),
			"web." + ns + ".svc.clusterset.local":  m.vip(ns, "web", v4),
			"only." + ns + ".svc.clusterset.local": "10.200.12.2",
			"only." + ns + ".svc.global":           "10.200.12.2",
			"beijing.web." + ns + ".svc.global":    f.member("beijing").clusterIP(ns, "web", v4),
			"shanghai.web." + ns + ".svc.global":   f.member("shanghai").clusterIP(ns, "web", v4),
		}
	}
	f.stillAnswer(want)
	return want
}

// stillAnswer waits until every member's DNS gives those answers.
func (f *fleet) stillAnswer(want map[*member]map[string]string) {
	f.Helper()
	f.eventually(func(m *member) error {
		var errs []error
		for name, answer := range want[m] {
			errs = append(errs, m.dns.answers(name, "A", answer))
		}
		return errors.Join(errs...)
	})
}

// throughout asks all those questions, over and over, until the returned function is called.
func (f *fleet) throughout(want map[*member]map[string]string) (stop func()) {
	f.Helper()
	var stops []func()
	for m, answers := range want {
		for name, answer := range answers {
			stops = append(stops, m.dns.alongside(name, "A", answer))
		}
	}
	return func() {
		f.Helper()
		for _, s := range stops {
			s()
		}
	}
}

// While the hub's API server is down every name keeps its answer in every member, and DNS servers and agents can be
// restarted. Afterwards every member catches up.
func TestHubAPIServerDown(t *testing.T) {
	f := outages(t)
	ns := f.namespace("down")
	beijing, tianjin, shanghai := f.member("beijing"), f.member("tianjin"), f.member("shanghai")
	want := f.everywhere(ns)
	shanghai.apply(exported(ns, "leaving", httpPort))
	f.eventually(func(m *member) error { return m.importedFrom(ns, "leaving", "shanghai") })
	for round, end := range []func(){f.hub.Plane.StopAPIServer, f.hub.Plane.KillAPIServer} {
		stop := f.throughout(want)
		end()
		// An agent that starts now is up, and waits. New exports wait too, and report it.
		name := fmt.Sprintf("meanwhile-%d", round)
		tianjin.killAgent()
		tianjin.startAgent()
		tianjin.apply(exported(ns, name, httpPort))
		if round == 0 {
			shanghai.remove(export(ns, "leaving", ""))
		}
		kube.Eventually(t, soon, func() error { return tianjin.exportIs(ns, name, "Ready", "Unknown", "Pending") })
		if err := errors.Join(beijing.exportIs(ns, "web", "Ready", "True", "Exported"), tianjin.exportIs(ns, "web", "Ready", "True", "Exported")); err != nil {
			t.Errorf("what is on the hub already is no longer said to be: %v", err)
		}
		stop()
		// A DNS server that starts now needs only its own cluster.
		beijing.dns.restart()
		f.stillAnswer(want)
		stop = f.throughout(want)
		began := time.Now()
		f.hub.startAPIServer()
		took(t, "the start of the hub's API server", began)
		began = time.Now()
		f.eventually(func(m *member) error { return m.importedFrom(ns, name, "tianjin") })
		kube.Eventually(t, soon, func() error { return tianjin.exportIs(ns, name, "Ready", "True", "Exported") })
		f.eventually(func(m *member) error { return m.gone(ns, "leaving") })
		took(t, "catching up after the outage", began)
		f.settle()
		stop()
	}
}

// Somebody empties the hub while agents run: its MemberClusters first, then every record. The agents write their records
// again. While a member's own MemberCluster is missing on the hub, its importer removes nothing; the state "held" counts
// those imports and an Event reports them.
func TestHubEmptied(t *testing.T) {
	f := outages(t)
	ns := f.namespace("emptied")
	want := f.everywhere(ns)
	stop := f.throughout(want)
	// Stopped agents can't write anything again, so their records stay missing.
	f.member("beijing").stopAgent()
	f.hub.lose("beijing", "tianjin", "shanghai")
	for _, m := range f.members {
		for _, all := range []client.Object{&clustersetv1alpha1.ExportedService{}, &clustersetv1alpha1.ExportedEndpoints{}} {
			f.hub.deleteAll(all, client.InNamespace(api.MemberNamespace(m.name)))
		}
	}
	for _, m := range f.members {
		if !m.agent.Running() {
			continue
		}
		kube.Eventually(t, soon, func() error {
			n, err := m.Metrics.Sum("clusterset_importer_services", "state", "held")
			if err == nil && n < 2 { // web without beijing, and only
				err = fmt.Errorf("%v services are held", n)
			}
			return errors.Join(err, f.recorded(m.name, ns, "web", true),
				m.hasEvent("MemberCluster", "", m.name, "HubIncomplete", "nothing is deleted"))
		})
	}
	// An agent that starts now also holds its imports.
	f.member("beijing").startAgent()
	kube.Eventually(t, soon, func() error { return f.recorded("beijing", ns, "only", true) })
	f.member("shanghai").restartAgent()
	kube.Eventually(t, soon, func() error {
		n, err := f.member("shanghai").Metrics.Sum("clusterset_importer_hub_synced")
		if err == nil && n != 1 {
			err = errors.New("it hasn't read the hub yet")
		}
		return err
	})
	stop()
	f.rejoin()
	f.settle()
	f.stillAnswer(want)
	kube.Eventually(t, soon, f.nothingHeld)
}

// Somebody deletes every record from the hub while all MemberClusters stay. The agents write them again at once, and no name
// disappears meanwhile. A service that a user un-exports at the same time is removed as fast as always.
func TestRecordsDeletedByHand(t *testing.T) {
	f := outages(t)
	ns := f.namespace("byhand")
	want := f.everywhere(ns)
	beijing := f.member("beijing")
	beijing.apply(exported(ns, "leaving", httpPort))
	f.eventually(func(m *member) error { return m.importedFrom(ns, "leaving", "beijing") })
	stop := f.throughout(want)
	for range 3 {
		for _, m := range f.members {
			for _, all := range []client.Object{&clustersetv1alpha1.ExportedService{}, &clustersetv1alpha1.ExportedEndpoints{}} {
				f.hub.deleteAll(all, client.InNamespace(api.MemberNamespace(m.name)))
			}
		}
		for _, m := range f.members {
			kube.Eventually(t, soon, func() error { return f.recorded(m.name, ns, "web", true) })
		}
	}
	began := time.Now()
	beijing.remove(export(ns, "leaving", ""))
	f.eventually(func(m *member) error { return m.gone(ns, "leaving") })
	took(t, "un-exporting", began)
	kube.Eventually(t, soon, f.nothingHeld)
	stop()
	f.stillAnswer(want)
}

// nothingHeld returns nil if no importer holds anything that the hub doesn't have.
func (f *fleet) nothingHeld() error {
	var errs []error
	for _, m := range f.members {
		n, err := m.Metrics.Sum("clusterset_importer_services", "state", "held")
		if err == nil && n > 0 {
			err = fmt.Errorf("%s: %v services are still held", m.name, n)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// The hub returns with an empty etcd: no CRDs, no members, no accounts. Nothing changes anywhere until somebody joins the
// members again, one after the other: the first to join waits for the others. Then everything is as before, including the
// ClusterSetIPs of what a member exports itself.
func TestHubThatLosesItsData(t *testing.T) {
	f := outages(t)
	ns := f.namespace("lost")
	want := f.everywhere(ns)
	stop := f.throughout(want)
	f.hub.kill()
	f.hub.Plane.StopAPIServer()
	f.hub.Plane.StopEtcd()
	if err := os.RemoveAll(filepath.Join(f.hub.Dir, "etcd")); err != nil {
		t.Fatal(err)
	}
	if err := f.hub.Plane.StartEtcd(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.hub.startAPIServer()
	// Running agents are refused, because their accounts are gone. So is one that starts.
	f.member("tianjin").killAgent()
	f.member("tianjin").startAgent()
	for _, m := range f.members {
		refused, err := m.Metrics.Sum("clusterset_exporter_heartbeats_total", "result", "error")
		if err != nil {
			t.Fatal(err)
		}
		if m.name == "tianjin" {
			continue // it sends no heartbeat before it has read the hub
		}
		kube.Eventually(t, soon, func() error {
			n, err := m.Metrics.Sum("clusterset_exporter_heartbeats_total", "result", "error")
			if err == nil && n < refused+2 {
				err = fmt.Errorf("%v heartbeats were refused, %v before", n, refused)
			}
			return err
		})
	}
	// The API server has no CRDs until the first member joins.
	if err := f.hub.prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.hub.start()
	for i, m := range f.members {
		if err := m.join(context.Background(), f.hub, "--rejoin"); err != nil {
			t.Fatal(err)
		}
		m.restartAgent() // it would read the new token within half a minute anyway
		kube.Eventually(t, soon, func() error {
			awaited, err := m.Metrics.Sum("clusterset_importer_awaited_clusters")
			if missing := len(f.members) - 1 - i; err == nil && int(awaited) != missing {
				err = fmt.Errorf("%s waits for %v clusters, want %d", m.name, awaited, missing)
			}
			return errors.Join(err, f.hub.phaseIs(m.name, clustersetv1alpha1.MemberReady), f.recorded(m.name, ns, "web", true))
		})
		for _, other := range f.members[i+1:] {
			kube.Eventually(t, soon, func() error {
				return m.hasEvent("MemberCluster", "", other.name, "NotRejoined", "has not joined again")
			})
		}
		if i == 0 {
			// A service that it un-exports is removed without waiting for the other members.
			m.apply(exported(ns, "brief", httpPort))
			kube.Eventually(t, soon, func() error { return m.importedFrom(ns, "brief", m.name) })
			m.remove(export(ns, "brief", ""))
			kube.Eventually(t, soon, func() error { return m.gone(ns, "brief") })
		}
	}
	f.settle()
	kube.Eventually(t, soon, f.nothingHeld)
	stop()
	f.stillAnswer(want)
}

// The importers stop waiting for a member that doesn't join again after --await-rejoin.
func TestAwaitRejoinEnds(t *testing.T) {
	f := outages(t)
	ns := f.namespace("ends")
	beijing, tianjin, shanghai := f.member("beijing"), f.member("tianjin"), f.member("shanghai")
	want := f.everywhere(ns)
	stop := f.throughout(map[*member]map[string]string{tianjin: want[tianjin]})
	shanghai.killAgent()
	beijing.restartAgent("--await-rejoin", "10s")
	kube.Eventually(t, soon, func() error { return f.recorded("beijing", ns, "web", true) })
	f.hub.lose("beijing", "tianjin", "shanghai")
	f.hub.deleteAll(&clustersetv1alpha1.ExportedService{}, client.InNamespace(api.MemberNamespace("shanghai")))
	began := time.Now()
	for _, m := range []*member{beijing, tianjin} {
		if err := m.join(t.Context(), f.hub, "--rejoin"); err != nil {
			t.Fatal(err)
		}
	}
	kube.Eventually(t, soon, func() error {
		return tianjin.hasEvent("MemberCluster", "", "shanghai", "NotRejoined", "has not joined again")
	})
	kube.Eventually(t, soon, func() error { return beijing.importedFrom(ns, "web", "beijing", "tianjin") })
	if after := time.Since(began); after < 8*time.Second { // creation times have a resolution of one second
		t.Errorf("beijing gave shanghai up after %s", after)
	}
	took(t, "giving a lost cluster up", began)
	kube.Eventually(t, soon, func() error {
		err := beijing.get("", "shanghai", &clustersetv1alpha1.MemberCluster{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("beijing still has the MemberCluster of shanghai: %w", err)
		}
		return nil
	})
	if err := tianjin.importedFrom(ns, "web", "beijing", "tianjin", "shanghai"); err != nil {
		t.Error(err)
	}
	if err := shanghai.join(t.Context(), f.hub, "--rejoin"); err != nil {
		t.Fatal(err)
	}
	shanghai.startAgent()
	beijing.restartAgent()
	f.settle()
	kube.Eventually(t, soon, f.nothingHeld)
	stop()
	f.stillAnswer(want)
}

// rejoin joins every member again, all at the same time.
func (f *fleet) rejoin() {
	f.Helper()
	var group errgroup.Group
	for _, m := range f.members {
		group.Go(func() error { return m.join(context.Background(), f.hub, "--rejoin") })
	}
	if err := group.Wait(); err != nil {
		f.Fatal(err)
	}
}

// deleteAll deletes every object of a kind, or those in a namespace.
func (c *cluster) deleteAll(kind client.Object, opts ...client.DeleteAllOfOption) {
	c.Helper()
	if err := c.Client.DeleteAllOf(context.Background(), kind, opts...); err != nil {
		c.Fatal(err)
	}
}
