package e2e

import (
	"errors"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	testfleet "github.com/clusterset/clusterset/test/fleet"
	"github.com/clusterset/clusterset/test/kube"
)

// replica returns a second agent of the member.
func (m *member) replica() *member {
	return m.on(m.base.Replica("second agent"))
}

// replica returns a second hub process.
func (h *hub) replica(flags ...string) *hub {
	second := newHub(h.base.Replica(flags...))
	second.TB = h.TB
	return second
}

// leads returns nil once the process is the leader.
func leads(s *testfleet.Metrics, lease string) error {
	n, err := s.Sum("leader_election_master_status", "name", lease)
	if err == nil && n != 1 {
		err = errors.New("it doesn't lead")
	}
	return err
}

// Two agents run, and two hub processes; one of each works and the other waits. The working one is killed and the other
// takes over: exports and new members get through, and no name disappears meanwhile.
func TestReplicasTakeOver(t *testing.T) {
	f := outages(t)
	ns := f.namespace("replicas")
	want := f.everywhere(ns)
	beijing, tianjin := f.member("beijing"), f.member("tianjin")
	f.hub.apply("{apiVersion: v1, kind: Namespace, metadata: {name: "+api.SystemNamespace+"}}", string(rights("hub-leader")))
	// No cluster falls silent in the time that a takeover may need on a slow machine.
	patient := []string{"--leader-elect", "--suspect-after", "5m", "--expire-after", "10m"}
	f.hub.restart(patient...)
	beijing.restartAgent("--leader-elect")
	kube.Eventually(t, soon, func() error {
		return errors.Join(leads(beijing.Metrics, api.MemberLeaderLease), leads(f.hub.Metrics, api.HubLeaderLease))
	})
	secondAgent, secondHub := beijing.replica(), f.hub.replica(patient...)
	t.Cleanup(func() {
		secondAgent.killAgent()
		secondHub.kill()
		f.hub.restart()
		beijing.restartAgent()
	})
	secondAgent.startAgent("--leader-elect")
	if err := secondHub.process.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	stop := f.throughout(want)
	for what, err := range map[string]error{
		"agent": leads(secondAgent.Metrics, api.MemberLeaderLease), "hub": leads(secondHub.Metrics, api.HubLeaderLease),
	} {
		if err == nil {
			t.Errorf("both replicas of the %s lead", what)
		}
	}

	began := time.Now()
	beijing.killAgent()
	f.hub.kill()
	beijing.apply(exported(ns, "meanwhile", httpPort))
	newcomer := "{apiVersion: clusterset.dev/v1alpha1, kind: MemberCluster, metadata: {name: newcomer}}"
	f.hub.apply(newcomer)
	t.Cleanup(func() { // it never joined, so nobody waits for it
		f.hub.remove(newcomer)
		for _, m := range f.members {
			kube.Eventually(t, soon, func() error {
				if err := m.get("", "newcomer", &clustersetv1alpha1.MemberCluster{}); !apierrors.IsNotFound(err) {
					return fmt.Errorf("%s still has its MemberCluster: %v", m.name, err) //nolint:errorlint // nil, too
				}
				return nil
			})
		}
	})
	kube.Eventually(t, soon, func() error {
		return errors.Join(leads(secondAgent.Metrics, api.MemberLeaderLease), leads(secondHub.Metrics, api.HubLeaderLease))
	})
	kube.Eventually(t, soon, func() error { return tianjin.importedFrom(ns, "meanwhile", "beijing") })
	kube.Eventually(t, soon, func() error {
		var mc clustersetv1alpha1.MemberCluster
		if err := f.hub.get("", "newcomer", &mc); err != nil {
			return err
		}
		if c := condition(mc.Status.Conditions, clustersetv1alpha1.ConditionReady); c == nil || c.Reason != clustersetv1alpha1.ReasonNoHeartbeat {
			return fmt.Errorf("the hub process says of a new MemberCluster: %+v", c)
		}
		return nil
	})
	took(t, "taking over", began)

	// A leader that ends gracefully hands over at once: it releases its Lease.
	beijing.startAgent("--leader-elect")
	began = time.Now()
	secondAgent.stopAgent()
	kube.Eventually(t, soon, func() error { return leads(beijing.Metrics, api.MemberLeaderLease) })
	took(t, "handing over", began)
	beijing.remove(exported(ns, "meanwhile", httpPort))
	kube.Eventually(t, soon, func() error { return tianjin.gone(ns, "meanwhile") })
	stop()
}
