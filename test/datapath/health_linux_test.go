package datapath

import (
	"slices"
	"testing"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/test/kube"
)

// A drained cluster is used only if no other is left. That holds for its own clients, too.
func TestDrain(t *testing.T) {
	s := set(t).service(t, export{}, "xicheng", "chaoyang", "minhang")
	xicheng, chaoyang, minhang := s.pods("xicheng", 2), s.pods("chaoyang", 2), s.pods("minhang", 1)
	s.publish()
	s.answered("xicheng", xicheng...)
	s.drain("xicheng")
	s.answered("xicheng", chaoyang...)
	s.answered("chaoyang", chaoyang...)
	s.drain("chaoyang")
	for _, c := range s.w.clusters {
		s.answered(c.Name, minhang...)
	}
	minhang.ready(false)
	s.publish()
	s.answered("xicheng", xicheng...)
	s.answered("chaoyang", chaoyang...)
	s.answered("minhang", slices.Concat(xicheng, chaoyang)...)
	minhang.ready(true)
	s.publish()
	s.answered("xicheng", minhang...)
	s.undrain("xicheng")
	s.answered("xicheng", xicheng...)
	s.answered("chaoyang", xicheng...)
	s.undrain("chaoyang")
	s.answered("chaoyang", chaoyang...)
}

// drain drains a cluster, until undrain or the end of the test.
func (s *service) drain(cluster string) {
	s.Helper()
	s.Cleanup(func() { s.undrain(cluster) })
	s.w.clusterset(s, "drain", cluster)
}

func (s *service) undrain(cluster string) {
	s.Helper()
	s.w.clusterset(s, "undrain", cluster)
}

// A silent cluster is used after all others, later only if no other is left, and again soon after it is back.
func TestDeadCluster(t *testing.T) {
	w := set(t)
	w.hurryHub(t)
	s := w.service(t, export{}, "chaoyang", "minhang")
	chaoyang, minhang := s.pods("chaoyang", 2), s.pods("minhang", 1)
	s.publish()
	dead := w.cluster("chaoyang")
	s.answered("xicheng", chaoyang...)
	s.answered("chaoyang", chaoyang...) // it has imported the service itself

	dead.die(t)
	w.eventuallyPhase(t, dead, clustersetv1alpha1.MemberSuspect)
	s.answered("xicheng", minhang...)
	w.eventuallyPhase(t, dead, clustersetv1alpha1.MemberExpired)
	s.answered("xicheng", minhang...)
	// Its nodes are back, but its agent isn't. The cluster stays Expired, and is used if no other is left.
	dead.reconnect()
	s.answered("chaoyang", chaoyang...)
	minhang.ready(false)
	s.publish()
	s.answered("xicheng", chaoyang...)
	minhang.ready(true)
	s.publish()
	s.answered("xicheng", minhang...)
	dead.startAgent(t)
	w.eventuallyPhase(t, dead, clustersetv1alpha1.MemberReady)
	s.answered("xicheng", chaoyang...)
}

// While the agent is dead, kube-proxy itself ignores the hints as soon as none of the preferred endpoints is ready.
func TestWithoutTheAgent(t *testing.T) {
	w := set(t)
	s := w.service(t, export{}, "xicheng", "chaoyang", "minhang")
	// The next cluster's pods start when those of the one before answer: so all are imported when the agent dies.
	started := func(cluster string, count int) pods {
		started := s.pods(cluster, count)
		s.publish()
		s.answered("xicheng", started...)
		return started
	}
	minhang, chaoyang, xicheng := started("minhang", 1), started("chaoyang", 1), started("xicheng", 2)
	agent := w.cluster("xicheng").Agent
	t.Cleanup(func() { w.cluster("xicheng").startAgent(t) })
	agent.Kill()
	s.answered("xicheng", xicheng...)
	s.unready("xicheng", xicheng[0])
	s.answered("xicheng", xicheng[1])
	s.unready("xicheng", xicheng[1])
	s.answered("xicheng", slices.Concat(chaoyang, minhang)...)
	w.cluster("xicheng").startAgent(t)
	s.answered("xicheng", xicheng...)
}

// A rollout while the hub is down takes effect in its own cluster. The hub's return disturbs no connection.
func TestRolloutWithoutTheHub(t *testing.T) {
	w := set(t)
	s := w.service(t, export{}, "xicheng", "minhang")
	before, far := s.pods("xicheng", 2), s.pods("minhang", 1)
	s.publish()
	s.answered("xicheng", before...)
	s.answered("minhang", far...)

	w.hub.Plane.KillAPIServer()
	t.Cleanup(func() { w.startHub(t) })
	after := s.pods("xicheng", 2)
	s.remove(before...)
	s.publish()
	s.answered("xicheng", after...)
	for _, p := range before {
		p.fail()
	}
	undisturbed := s.only("xicheng", after...)
	w.startHub(t)
	far.ready(false)
	s.publish()
	s.answered("minhang", after...)
	kube.Eventually(t, w.ready)
	undisturbed()
}
