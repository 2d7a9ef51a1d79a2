package e2e

import (
	"errors"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/test/fleet"
	"github.com/clusterset/clusterset/test/fleettest"
	"github.com/clusterset/clusterset/test/kube"
)

// leads returns nil if the process is the leader.
func leads(s *fleet.Metrics, lease string) error {
	n, err := s.Sum("leader_election_master_status", "name", lease)
	if err == nil && n != 1 {
		err = errors.New("it doesn't lead")
	}
	return err
}

// Two agents and two hub processes run. One of each works, and the other waits. When the working ones are killed, the
// others take over: exports and new members get through, and no name disappears meanwhile.
func TestReplicasTakeOver(t *testing.T) {
	f := outages(t)
	ns := f.Namespace("replicas")
	want := everywhere(f, ns)
	beijing, tianjin := f.Member("beijing"), f.Member("tianjin")
	// No cluster becomes Suspect in the time that a takeover may need on a slow machine.
	patient := []string{"--leader-elect", "--suspect-after", "5m", "--expire-after", "10m"}
	f.Hub.Restart(patient...)
	beijing.RestartAgent("--leader-elect")
	kube.Eventually(t, func() error {
		return errors.Join(leads(beijing.Metrics, api.MemberLeaderLease), leads(f.Hub.Metrics, api.HubLeaderLease))
	})
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
	stop := throughout(f, want)
	for what, err := range map[string]error{
		"agent": leads(secondAgent.Metrics, api.MemberLeaderLease), "hub": leads(secondHub.Metrics, api.HubLeaderLease),
	} {
		if err == nil {
			t.Errorf("both replicas of the %s lead", what)
		}
	}

	began := time.Now()
	beijing.KillAgent()
	f.Hub.Kill()
	beijing.Apply(exported(ns, "meanwhile", httpPort))
	newcomer := "{apiVersion: clusterset.dev/v1alpha1, kind: MemberCluster, metadata: {name: newcomer}}"
	f.Hub.Apply(newcomer)
	t.Cleanup(func() { // it never joined, so nobody waits for it
		f.Hub.Remove(newcomer)
		for _, m := range f.Members {
			kube.Eventually(t, func() error {
				if err := m.Get("", "newcomer", &clustersetv1alpha1.MemberCluster{}); !apierrors.IsNotFound(err) {
					return fmt.Errorf("%s still has its MemberCluster: %v", m.Spec.Name, err) //nolint:errorlint // nil, too
				}
				return nil
			})
		}
	})
	kube.Eventually(t, func() error {
		return errors.Join(leads(secondAgent.Metrics, api.MemberLeaderLease), leads(secondHub.Metrics, api.HubLeaderLease))
	})
	kube.Eventually(t, func() error { return importedFrom(tianjin, ns, "meanwhile", "beijing") })
	kube.Eventually(t, func() error {
		var mc clustersetv1alpha1.MemberCluster
		if err := f.Hub.Get("", "newcomer", &mc); err != nil {
			return err
		}
		if c := fleettest.Condition(mc.Status.Conditions, clustersetv1alpha1.ConditionReady); c == nil || c.Reason != clustersetv1alpha1.ReasonNoHeartbeat {
			return fmt.Errorf("the hub process says of a new MemberCluster: %+v", c)
		}
		return nil
	})
	fleettest.Took(t, "taking over", began)

	// A leader that ends gracefully hands over at once: it releases its Lease.
	beijing.StartAgent("--leader-elect")
	began = time.Now()
	secondAgent.StopAgent()
	kube.Eventually(t, func() error { return leads(beijing.Metrics, api.MemberLeaderLease) })
	fleettest.Took(t, "handing over", began)
	beijing.Remove(exported(ns, "meanwhile", httpPort))
	kube.Eventually(t, func() error { return tianjin.Gone(ns, "meanwhile") })
	stop()
}
