package datapath

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/test/kube"
)

// The path between two clusters breaks, in each way that paths break, while both still reach the hub. The affected cluster uses another,
// a third goes on using the one that it reaches, and all is as before once the path is back. Rules D40 to D50 of docs/spec/data-path.md.
func TestPathBetweenClusters(t *testing.T) {
	w := set(t)
	w.measure(t)
	s := w.service(t, export{annotations: `clusterset.dev/prefer: none`}, "chaoyang", "minhang")
	chaoyang, minhang := s.pods("chaoyang", 2), s.pods("minhang", 1)
	s.publish()
	both := slices.Concat(chaoyang, minhang)
	a, b := port(1, 1), port(2, 1)
	breaks := []struct{ name, rules string }{
		{"cut both ways", "iifname " + a + " oifname " + b + " drop\niifname " + b + " oifname " + a + " drop"},
		{"only the answers", "iifname " + b + " oifname " + a + " drop"},
		{"only large packets are lost", "iifname " + b + " oifname " + a + " meta length > 1000 drop"},
		{"only the way there, and only connections", "iifname " + a + " oifname " + b + " tcp flags & (syn|ack) == syn drop"},
		{"refused", "iifname " + a + " oifname " + b + " meta l4proto tcp reject with tcp reset"},
	}
	if os.Getenv("CLUSTERSET_LONG") == "" {
		breaks = breaks[:3] // each return takes twice as long as the one before (D50)
	}
	for _, c := range breaks {
		name, rules := c.name, c.rules
		t.Run(name, func(t *testing.T) {
			s := *s
			s.T = t
			w.reaches(t, "xicheng", "chaoyang", metav1.ConditionTrue)
			s.answered("xicheng", both...)
			began := time.Now()
			mend := w.network.rules(t, rules)
			for minhang.err(&s, "xicheng") != nil {
				if time.Since(began) > soon {
					t.Fatal(minhang.err(&s, "xicheng"))
				}
			}
			t.Logf("%s: xicheng left chaoyang after %s", name, time.Since(began).Round(100*time.Millisecond))
			w.reaches(t, "xicheng", "chaoyang", metav1.ConditionFalse)
			w.reaches(t, "xicheng", "minhang", metav1.ConditionTrue)
			w.reaches(t, "minhang", "chaoyang", metav1.ConditionTrue)
			s.answered("minhang", both...)
			if err := phaseIs(w.hub.Cluster, "chaoyang", clustersetv1alpha1.MemberReady); err != nil {
				t.Error(err)
			}
			began = time.Now()
			mend()
			kube.Eventually(t, 6*time.Minute, func() error { return both.err(&s, "xicheng") })
			t.Logf("%s: and uses it again after %s", name, time.Since(began).Round(100*time.Millisecond))
		})
	}
}

// An agent that is cut off, or dead, changes nothing (D47, D51): neither of these says anything about the others.
func TestAgentThatReachesNobody(t *testing.T) {
	w := set(t)
	w.measure(t)
	s := w.service(t, export{annotations: `clusterset.dev/prefer: none`}, "chaoyang", "minhang")
	both := slices.Concat(s.pods("chaoyang", 1), s.pods("minhang", 1))
	s.publish()
	for _, c := range []string{"chaoyang", "minhang"} {
		w.reaches(t, "xicheng", c, metav1.ConditionTrue)
	}
	s.answered("xicheng", both...)
	// Only what the agent dials is cut off: connections to the service show what changes.
	mend := w.network.rules(t, "iifname "+port(1, 1)+" tcp dport 9471 drop")
	kube.Eventually(t, soon, func() error {
		for _, c := range w.verdicts(t, "xicheng").Clusters {
			if c.Reason != "AllUnreachable" {
				return fmt.Errorf("%+v", c)
			}
		}
		return nil
	})
	s.answered("xicheng", both...)
	mend()
	kube.Eventually(t, soon, func() error {
		for _, c := range w.verdicts(t, "xicheng").Clusters {
			if c.Reason != "Answers" {
				return fmt.Errorf("%+v", c)
			}
		}
		return nil
	})
	w.cluster("xicheng").Agent.Kill()
	was := w.verdicts(t, "xicheng")
	s.answered("xicheng", both...)
	if now := w.verdicts(t, "xicheng"); !now.Stamp.Equal(&was.Stamp) {
		t.Error("a dead agent has written")
	}
}

// beaconOf is the address of a cluster's agent, of the first node's pods.
func beaconOf(c int) string { return netip.AddrPortFrom(pod4(c, 1, 250), 9471).String() }

// measure moves the agents to the clusters' first nodes, with beacons, until the end of the test.
func (w *world) measure(t *testing.T) {
	t.Helper()
	for _, c := range w.clusters {
		first := c.nodes[0]
		stop, err := first.forwardTo(w.hub.Plane.URL())
		if err != nil {
			t.Fatal(err)
		}
		agent := c.Agent
		agent.Stop()
		path, args, up := agent.Path, agent.Args, agent.Up
		t.Cleanup(func() {
			agent.Stop()
			agent.Path, agent.Args, agent.Up = path, args, up
			c.startAgent(t)
			stop()
			_ = c.Client.Delete(context.Background(), &clustersetv1alpha1.Reachability{ObjectMeta: metav1.ObjectMeta{Name: clustersetv1alpha1.ReachabilityName}})
		})
		agent.Path = c.nsenter
		agent.Args = func() ([]string, error) {
			usual, err := args()
			return slices.Concat([]string{"--net=" + first.ns.path(), "--", path}, usual, []string{"--beacon-addresses", beaconOf(c.number)}), err
		}
		agent.Up = func(ctx context.Context) error { return first.get(ctx, "http://"+c.Metrics.Addr+"/metrics") }
		c.startAgent(t)
	}
}

func (w *world) verdicts(t testing.TB, of string) *clustersetv1alpha1.Reachability {
	t.Helper()
	o := &clustersetv1alpha1.Reachability{}
	key := client.ObjectKey{Name: clustersetv1alpha1.ReachabilityName}
	if err := client.IgnoreNotFound(w.cluster(of).Client.Get(context.Background(), key, o)); err != nil {
		t.Fatal(err)
	}
	return o
}

// reaches waits until a cluster's agent says that it reaches another, or doesn't.
func (w *world) reaches(t testing.TB, from, to string, want metav1.ConditionStatus) {
	t.Helper()
	kube.Eventually(t, soon, func() error {
		all := w.verdicts(t, from).Clusters
		for _, c := range all {
			if c.Name == to && c.Reachable == want {
				return nil
			}
		}
		return fmt.Errorf("%s says %+v, want %s to be %s", from, all, to, want)
	})
}

func (p pods) err(s *service, from string) error {
	return s.isAnswered(way{from: s.w.cluster(from).nodes[:1], network: "tcp4", port: 80}, p)
}

// rules makes the router apply rules to what it forwards, until the returned function is called or the test ends.
func (w *network) rules(t testing.TB, rules string) (remove func()) {
	t.Helper()
	commands := "nft add table inet broken\nnft add chain inet broken pass { type filter hook forward priority 0 ; }\n"
	for rule := range strings.Lines(rules) {
		commands += "nft add rule inet broken pass " + strings.TrimSpace(rule) + "\n"
	}
	if err := w.router.run(commands); err != nil {
		t.Fatal(err)
	}
	removed := false
	remove = func() {
		if removed {
			return
		}
		removed = true
		if err := w.router.run("nft delete table inet broken"); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(remove)
	return remove
}

// A cluster dies: all of its nodes lose power at once, its agent with them. Connections to it fail until the others have noticed that, by
// themselves, long before the hub suspects it. Rules D45 and D47.
func TestDeadClusterIsLeft(t *testing.T) {
	w := set(t)
	w.measure(t)
	deaths, uses := 10, []struct{ name, annotations string }{
		{"used like the others", "clusterset.dev/prefer: none"},
		{"the nearest", ""},
	}
	if os.Getenv("CLUSTERSET_LONG") == "" {
		deaths, uses = 1, uses[:1]
	}
	for _, c := range uses {
		t.Run(c.name, func(t *testing.T) {
			s := w.service(t, export{annotations: c.annotations}, "chaoyang", "minhang")
			near, far, from := s.pods("chaoyang", 2), s.pods("minhang", 1), way{from: w.cluster("xicheng").nodes[:1], network: "tcp4", port: 80}
			var took []time.Duration
			for range deaths {
				w.forgetReach(t, "xicheng")
				w.reaches(t, "xicheng", "chaoyang", metav1.ConditionTrue)
				others := far
				if c.annotations == "" {
					others = nil
				}
				for _, one := range []bool{true, false} { // which shows that the agent is at work again
					near[0].notReady = one
					s.publish()
					s.answeredBy(from, others.with(near[map[bool]int{true: 1}[one]:]...)...)
				}
				took = append(took, s.lastFailure("xicheng", func() { w.cluster("chaoyang").die(t) }))
				if err := far.err(s, "xicheng"); err != nil {
					t.Error(err)
				}
				if err := phaseIs(w.hub.Cluster, "chaoyang", clustersetv1alpha1.MemberReady); err != nil {
					t.Errorf("the hub noticed it first: %v", err)
				}
				w.cluster("chaoyang").reconnect(t)
				w.cluster("chaoyang").startAgent(t)
			}
			slices.Sort(took)
			t.Logf("from the death to the last connection that failed: %s (median of %d: %s)", took, deaths, took[(len(took)-1)/2])
			if last := took[len(took)-1]; deaths > 1 && last > 6*time.Second { // one death in make test says nothing about time
				t.Errorf("connections failed for %s", last)
			}
		})
	}
}

// forgetReach makes a cluster's agent measure anew: the delay after a return grows with each (D50).
func (w *world) forgetReach(t *testing.T, cluster string) {
	t.Helper()
	c := w.cluster(cluster)
	c.Agent.Stop()
	o := &clustersetv1alpha1.Reachability{ObjectMeta: metav1.ObjectMeta{Name: clustersetv1alpha1.ReachabilityName}}
	if err := client.IgnoreNotFound(c.Client.Delete(t.Context(), o)); err != nil {
		t.Fatal(err)
	}
	c.startAgent(t)
}

// lastFailure makes connections from the first node of a cluster while something breaks, and returns how long after that the last one was
// begun that failed: 200 that succeeded have followed it.
func (s *service) lastFailure(cluster string, breaks func()) time.Duration {
	s.Helper()
	n := s.w.cluster(cluster).nodes[0]
	vips, err := s.vips(n.cluster)
	if err != nil {
		s.Fatal(err)
	}
	type result struct {
		begun  time.Time
		failed bool
	}
	results := make(chan result, 1<<12)
	stop := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() { // one every 20 ms, each in its own goroutine: one that fails waits for seconds
		pace := time.NewTicker(20 * time.Millisecond)
		defer pace.Stop()
		for {
			select {
			case <-stop:
				return
			case <-pace.C:
			}
			begun := time.Now()
			// No address and port of a client twice: the kernel remembers for two minutes where a connection went that was never answered.
			s.w.lone++
			source := netip.AddrPortFrom(n.client(false, 200+s.w.lone%50), uint16(10_000+s.w.lone/50)) //nolint:gosec // far fewer than there are ports
			all.Go(func() {
				err := n.ns.do(func() error {
					dialer := net.Dialer{Timeout: patience, LocalAddr: net.TCPAddrFromAddrPort(source)}
					conn, err := dialer.Dial("tcp4", netip.AddrPortFrom(vips[0], 80).String())
					if err != nil {
						return err
					}
					defer func() { _ = conn.Close() }()
					_, err = whoAnswers(conn)
					return err
				})
				results <- result{begun, err != nil}
			})
		}
	})
	died := time.Now()
	breaks()
	var last time.Time
	for since := 0; since < 200; {
		select {
		case r := <-results:
			switch {
			case r.failed && r.begun.After(last):
				last, since = r.begun, 0
			case !r.failed && r.begun.After(last) && r.begun.After(died):
				since++
			}
		case <-time.After(soon):
			close(stop)
			s.Fatal("no connection ends")
		}
		if time.Since(died) > soon {
			close(stop)
			s.Fatal("connections go on failing")
		}
	}
	close(stop)
	all.Wait()
	close(results)
	for r := range results { // those that were still waiting
		if r.failed && r.begun.After(last) {
			last = r.begun
		}
	}
	return max(0, last.Sub(died)).Round(100 * time.Millisecond)
}
