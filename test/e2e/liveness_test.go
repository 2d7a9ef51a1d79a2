package e2e

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/test/fleet"
	"github.com/clusterset/clusterset/test/fleettest"
	"github.com/clusterset/clusterset/test/kube"
)

// When most members fall silent together, the hub process assumes that it is cut off itself: they rank behind all others, but none expires
// while that lasts. When only one is left silent, it expires, and is left out of all answers. It returns with its first heartbeat. The hub
// process is killed at each step, and the next one forgets nothing.
func TestBrake(t *testing.T) {
	f := outages(t)
	ns := f.Namespace("brake")
	beijing, tianjin, shanghai := f.Member("beijing"), f.Member("tianjin"), f.Member("shanghai")
	want := everywhere(f, ns)
	web, only := "web."+ns+".svc.global", "only."+ns+".svc.clusterset.local"
	// Ask from the zone of beijing, as another cluster there: no cluster sees itself as silent.
	near := tianjin.DNSAt(fleet.Location{Cluster: "daxing", Zone: "beijing", Region: "north"})
	near.Eventually(web, "A", want[beijing][web])
	records := versions(f.Hub, "beijing", ns)
	const suspect, expire = 3 * time.Second, 6 * time.Second
	flags := []string{"--suspect-after", suspect.String(), "--expire-after", expire.String()}
	f.Hub.Restart(flags...)
	f.Settle()

	beijing.KillAgent()
	shanghai.KillAgent()
	paused := func(name string) error {
		var mc clustersetv1alpha1.MemberCluster
		err := f.Hub.Get("", name, &mc)
		if err == nil && (mc.Status.Phase != clustersetv1alpha1.MemberSuspect || !meta.IsStatusConditionTrue(mc.Status.Conditions, clustersetv1alpha1.ConditionExpiryPaused)) {
			err = fmt.Errorf("%s: %+v", name, mc.Status)
		}
		return err
	}
	kube.Eventually(t, func() error {
		return errors.Join(paused("beijing"), paused("shanghai"), metricIs(f.Hub.Metrics, 1, "clusterset_hub_expiry_paused"),
			f.Hub.HasEvent("MemberCluster", "", "shanghai", clustersetv1alpha1.ReasonMostMembersSilent))
	})
	near.Eventually(web, "A", want[tianjin][web])
	// What no other cluster exports is still answered, even after a restart of the hub process, and long after the time to expire. The loop
	// below waits on purpose, because the test is about what doesn't happen.
	stays := tianjin.DNS.Alongside(only, "A", want[tianjin][only])
	last := near.Alongside(web, "A", want[tianjin][web])
	f.Hub.Kill()
	f.Hub.Start(flags...)
	restarted := time.Now()
	kube.Eventually(t, func() error {
		if err := errors.Join(paused("beijing"), paused("shanghai")); err != nil {
			t.Fatalf("the brake was let go: %v", err)
		}
		if since := time.Since(restarted); since < expire+suspect {
			return fmt.Errorf("only %s so far", since)
		}
		return nil
	})
	stays()

	shanghai.StartAgent()
	kube.Eventually(t, func() error {
		var errs []error
		for _, at := range []*fleettest.Cluster{&f.Hub.Cluster, &tianjin.Cluster, &shanghai.Cluster} {
			errs = append(errs, at.PhaseIs("shanghai", clustersetv1alpha1.MemberReady), at.PhaseIs("beijing", clustersetv1alpha1.MemberExpired))
		}
		return errors.Join(errs...)
	})
	for _, m := range []*fleettest.Member{tianjin, shanghai} {
		m.DNS.Eventually(only, "A", "NXDOMAIN")
		m.DNS.Eventually("beijing."+web, "A", "NXDOMAIN")
		m.DNS.Eventually(web, "A", want[m][web])
	}
	gone := tianjin.DNS.Alongside(only, "A", "NXDOMAIN")
	f.Hub.Kill()
	f.Hub.Start(flags...)
	kube.Eventually(t, func() error { // it gives no member a worse phase before that member's heartbeat has arrived
		return errors.Join(metricIs(f.Hub.Metrics, 2, "clusterset_hub_member_phase", "phase", "Ready"), f.Hub.PhaseIs("beijing", clustersetv1alpha1.MemberExpired),
			f.Hub.HasEvent("MemberCluster", "", "beijing", clustersetv1alpha1.ReasonHeartbeatMissed),
			f.Hub.HasEvent("MemberCluster", "", "beijing", clustersetv1alpha1.ReasonHeartbeatExpired))
	})
	gone()
	last()

	began := time.Now()
	beijing.StartAgent()
	f.Settle()
	want.are(f)
	fleettest.Took(t, "the return", began)
	near.Eventually(web, "A", want[beijing][web])
	if now := versions(f.Hub, "beijing", ns); now != records {
		t.Errorf("the records were written again:\n%s, were\n%s", now, records)
	}
}

// Two agents and two hub processes run. One of each works, and the other waits. When the working ones are killed, the others take over: exports
// and new members get through, and no name disappears meanwhile. A leader that ends gracefully hands over at once.
func TestReplicasTakeOver(t *testing.T) {
	f := outages(t)
	ns := f.Namespace("replicas")
	want := everywhere(f, ns)
	beijing, tianjin := f.Member("beijing"), f.Member("tianjin")
	// No cluster becomes Suspect in the time that a takeover may need on a slow machine.
	patient := []string{"--leader-elect", "--suspect-after", "5m", "--expire-after", "10m"}
	f.Hub.Restart(patient...)
	beijing.RestartAgent("--leader-elect")
	lead := func(leads float64, agent *fleettest.Member, hub *fleettest.Hub) error {
		return errors.Join(metricIs(agent.Metrics, leads, "leader_election_master_status", "name", api.MemberLeaderLease),
			metricIs(hub.Metrics, leads, "leader_election_master_status", "name", api.HubLeaderLease))
	}
	kube.Eventually(t, func() error { return lead(1, beijing, f.Hub) })
	secondAgent, secondHub := beijing.Replica(), f.Hub.Replica(patient...)
	t.Cleanup(func() {
		secondAgent.KillAgent()
		secondHub.Kill()
		f.Hub.Restart()
		beijing.RestartAgent()
	})
	secondAgent.StartAgent("--leader-elect")
	if err := secondHub.Process.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	stop := want.throughout()
	if err := lead(0, secondAgent, secondHub); err != nil {
		t.Errorf("both replicas lead: %v", err)
	}

	began := time.Now()
	beijing.KillAgent()
	f.Hub.Kill()
	beijing.Apply(exported(ns, "meanwhile", httpPort))
	newcomer := "{apiVersion: clusterset.dev/v1alpha1, kind: MemberCluster, metadata: {name: newcomer}}"
	f.Hub.Apply(newcomer)
	t.Cleanup(func() { // it never joined, so nobody waits for it
		f.Hub.Remove(newcomer)
		f.Eventually(func(m *fleettest.Member) error { return withoutCopy(m, "newcomer") })
	})
	kube.Eventually(t, func() error {
		var mc clustersetv1alpha1.MemberCluster
		err := errors.Join(lead(1, secondAgent, secondHub), importedFrom(tianjin, ns, "meanwhile", "beijing"), f.Hub.Get("", "newcomer", &mc))
		if c := fleettest.Condition(mc.Status.Conditions, clustersetv1alpha1.ConditionReady); c == nil || c.Reason != clustersetv1alpha1.ReasonNoHeartbeat {
			err = errors.Join(err, fmt.Errorf("the hub process says of a new MemberCluster: %+v", c))
		}
		return err
	})
	fleettest.Took(t, "taking over", began)

	beijing.StartAgent("--leader-elect")
	began = time.Now()
	secondAgent.StopAgent()
	kube.Eventually(t, func() error {
		return metricIs(beijing.Metrics, 1, "leader_election_master_status", "name", api.MemberLeaderLease)
	})
	fleettest.Took(t, "handing over", began)
	beijing.Remove(exported(ns, "meanwhile", httpPort))
	kube.Eventually(t, func() error { return tianjin.Gone(ns, "meanwhile") })
	stop()
}
