package datapath

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/test/kube"
)

// The path between two clusters breaks, in each way that paths break, while both still reach the hub. Within six seconds the affected cluster
// has left the other, by address and by name; a third goes on using it, and all is as before once the path is back. Rules D40 to D50 of
// docs/spec/data-path.md.
func TestPathBetweenClusters(t *testing.T) {
	w := set(t)
	w.measure(t)
	s := w.service(t, export{annotations: `clusterset.dev/prefer: none`}, "chaoyang", "minhang")
	chaoyang, minhang := s.pods("chaoyang", 2), s.pods("minhang", 1)
	s.publish()
	both := slices.Concat(chaoyang, minhang)
	xicheng := w.cluster("xicheng")
	s.asks(xicheng)
	var named []netip.Addr // svc.global has the ClusterIPs of the exporting clusters
	for _, c := range []string{"chaoyang", "minhang"} {
		ips, err := s.addresses(w.cluster(c), true)
		if err != nil {
			t.Fatal(err)
		}
		named = append(named, ips[0])
	}
	here, there := fmt.Sprintf("{ %s, %s }", port(1, 1), port(1, 2)), port(2, 1)
	breaks := []struct{ name, rules string }{
		{"cut both ways", "iifname HERE oifname THERE drop\niifname THERE oifname HERE drop"},
		{"refused", "iifname HERE oifname THERE meta l4proto tcp reject with tcp reset"},
		{"only the answers", "iifname THERE oifname HERE drop"},
		{"only large packets are lost", "iifname THERE oifname HERE meta length > 1000 drop"},
		{"only the way there, and only connections", "iifname HERE oifname THERE tcp flags & (syn|ack) == syn drop"},
	}
	if !atLength() {
		breaks = breaks[:2]
	}
	for i, c := range breaks {
		t.Run(c.name, func(t *testing.T) {
			s := *s
			s.T = t
			repeat(t, 10, 6*time.Second, func() time.Duration {
				w.forgetReach(t, "xicheng") // each return takes twice as long as the one before (D50)
				w.reaches(t, "xicheng", "chaoyang", metav1.ConditionTrue)
				s.answered("xicheng", both...)
				kube.Eventually(t, func() error { return s.named(xicheng, named...) })
				bystander := s.only("minhang", both...)
				connections := s.use(s.connections(way{from: xicheng.nodes, network: "tcp", port: 80}, minhang...)...)
				names := s.use(func(int) bool { return s.named(xicheng, named[1]) == nil })
				began := time.Now()
				mend := w.network.filter(t, "broken", strings.NewReplacer("HERE", here, "THERE", there).Replace(c.rules))
				byName, byAddress := names.last(began), connections.last(began)
				t.Logf("xicheng left chaoyang after %s, by name after %s", byAddress, byName)
				s.answered("xicheng", minhang...)
				w.reaches(t, "xicheng", "chaoyang", metav1.ConditionFalse)
				w.reaches(t, "xicheng", "minhang", metav1.ConditionTrue)
				w.reaches(t, "minhang", "chaoyang", metav1.ConditionTrue)
				bystander()
				if err := phaseIs(w.hub.Cluster, "chaoyang", clustersetv1alpha1.MemberReady); err != nil {
					t.Error(err)
				}
				began = time.Now()
				mend()
				if i > 0 && !atLength() {
					return max(byName, byAddress) // the delay of a return is the same for all
				}
				s.answered("xicheng", both...)
				t.Logf("and uses it again after %s", time.Since(began).Round(100*time.Millisecond))
				return max(byName, byAddress)
			})
		})
	}
}

// measure moves the agents to the clusters' first nodes, with beacons, until the end of the test.
func (w *world) measure(t *testing.T) {
	t.Helper()
	for _, c := range w.clusters {
		first, agent := c.nodes[0], c.Agent
		hub, err := first.listenFor(w.hub.Plane.URL())
		if err != nil {
			t.Fatal(err)
		}
		agent.Stop()
		path, args, up := agent.Path, agent.Args, agent.Up
		t.Cleanup(func() {
			agent.Stop()
			agent.Path, agent.Args, agent.Up, c.BeaconAddresses = path, args, up, nil
			c.startAgent(t)
			_ = hub.Close()
			_ = c.Client.Delete(context.Background(), verdicts())
		})
		c.Beacon = netip.AddrPortFrom(pod4(c.number, 1, 180), 9471).String()
		c.BeaconAddresses = []string{c.Beacon}
		agent.Path = c.nsenter
		agent.Args = func() ([]string, error) {
			usual, err := args()
			return slices.Concat([]string{"--net=" + first.ns.path(), "--", path}, usual), err
		}
		agent.Up = func(ctx context.Context) error { return first.get(ctx, "http://"+c.Metrics.Addr+"/metrics") }
		c.startAgent(t)
	}
}

// verdicts returns the key of a cluster's object with its verdicts.
func verdicts() *clustersetv1alpha1.Reachability {
	return &clustersetv1alpha1.Reachability{ObjectMeta: metav1.ObjectMeta{Name: clustersetv1alpha1.ReachabilityName}}
}

// reaches waits until a cluster's agent says that it reaches another, or doesn't.
func (w *world) reaches(t testing.TB, from, to string, want metav1.ConditionStatus) {
	t.Helper()
	kube.Eventually(t, func() error {
		o := verdicts()
		if err := w.cluster(from).Client.Get(context.Background(), client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		for _, c := range o.Clusters {
			if c.Name == to && c.Reachable == want {
				return nil
			}
		}
		return fmt.Errorf("%s says %+v, want %s to be %s", from, o.Clusters, to, want)
	})
}

// A cluster dies: all of its nodes lose power at once, its agent with them. Connections to it fail until the others have noticed that, by
// themselves, long before the hub suspects it. Rules D45 and D47.
func TestDeadClusterIsLeft(t *testing.T) {
	w := set(t)
	w.measure(t)
	uses := []struct{ name, annotations string }{
		{"used like the others", "clusterset.dev/prefer: none"},
		{"the nearest", ""},
	}
	if !atLength() {
		uses = uses[:1]
	}
	for _, c := range uses {
		t.Run(c.name, func(t *testing.T) {
			s := w.service(t, export{annotations: c.annotations}, "chaoyang", "minhang")
			near, far, from := s.pods("chaoyang", 2), s.pods("minhang", 1), way{from: w.cluster("xicheng").nodes[:1], network: "tcp4", port: 80}
			repeat(t, 10, 6*time.Second, func() time.Duration {
				w.forgetReach(t, "xicheng")
				w.reaches(t, "xicheng", "chaoyang", metav1.ConditionTrue)
				for n := range near { // first one, then all, which shows that the agent is at work again
					near[0].notReady = n == 0
					s.publish()
					used := near[1-n:]
					if c.annotations != "" {
						used = slices.Concat(used, far)
					}
					s.answeredBy(from, used...)
				}
				connections := s.use(s.connections(from, slices.Concat(near, far)...)...)
				died := time.Now()
				w.cluster("chaoyang").die(t)
				took := connections.last(died)
				if err := s.isAnswered(from, far); err != nil {
					t.Error(err)
				}
				if err := phaseIs(w.hub.Cluster, "chaoyang", clustersetv1alpha1.MemberReady); err != nil {
					t.Errorf("the hub noticed it first: %v", err)
				}
				w.cluster("chaoyang").reconnect()
				w.cluster("chaoyang").startAgent(t)
				return took
			})
		})
	}
}

// forgetReach makes a cluster's agent measure anew: the delay after a return grows with each (D50).
func (w *world) forgetReach(t *testing.T, cluster string) {
	t.Helper()
	c := w.cluster(cluster)
	c.Agent.Stop()
	if err := client.IgnoreNotFound(c.Client.Delete(t.Context(), verdicts())); err != nil {
		t.Fatal(err)
	}
	c.startAgent(t)
}
